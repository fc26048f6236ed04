"""Document 2, section 2: tokens, embeddings and the learning objective."""

import functools
import math

import numpy as np

from byhand import toy
from byhand.numpy import attention, decoder, embedding, linear, loss, optimizer, preference, softmax

from . import claim, extra, named
from .samples import draw, largest, letters


# ---- tokens ----
def looked_up(tokens, vocab=5, width=6):
    return embedding.embedding(np.array([tokens]), draw(vocab, width))[0][0]


@claim("d2-s2-x-shape")
def shape_of_the_rows():
    return letters(looked_up([3, 0, 3, 1]).shape, {"n": 4, "d": 6})


@claim("d2-s2-lookup")
def one_row_of_the_table():
    tokens = [3, 0, 3, 1]
    one_hot = np.eye(5)[tokens]
    return {"one_hot_equals_row_lookup": largest(math.sqrt(6) * one_hot @ draw(5, 6) - looked_up(tokens)) < 1e-12}


# ---- likelihood ----
def next_probabilities(tokens):
    """p(· | the tokens up to each place), from the toy decoder: (batch, time, vocab)."""
    case = toy.decoder()
    return softmax.softmax(decoder.forward(case.params, case.config, np.array(tokens)).logits)[0]


@claim("d2-s2-factorisation")
def factorised_likelihood():
    """One text by conditionals from a pass over each prefix of its own, and at once; and all texts of its length together."""
    text, vocab = [0, 3, 1, 1], 9
    factors = [next_probabilities([text[:t]])[0, -1, text[t]] for t in range(1, 4)]
    case = toy.decoder()
    logits = decoder.forward(case.params, case.config, np.array([text[:-1]])).logits
    at_once, _ = preference.log_likelihood(logits, np.array([text[1:]]), np.ones((1, 3), dtype=bool))
    texts = np.array([[0, a, b, c] for a in range(vocab) for b in range(vocab) for c in range(vocab)])
    joint = np.take_along_axis(next_probabilities(texts[:, :-1]), texts[:, 1:, None], axis=-1)[..., 0].prod(axis=1)
    return largest(math.prod(factors) - math.exp(at_once[0]), joint.sum() - 1)


@claim("d2-s2-loss-formula")
def loss_formula():
    logits, targets = draw(1, 4, 5), [3, 0, 0, 2]
    log_p = [z[k] - math.log(sum(map(math.exp, z))) for z, k in zip(logits[0].tolist(), targets, strict=True)]
    return abs(loss.cross_entropy(logits, np.array([targets]))[0] + sum(log_p) / 4)


@extra("d2-s2-loss-formula")
def targets_in_a_text():
    length = 7
    return {"loss_terms_from_T_tokens_without_bos": f"T{loss.next_token(np.zeros((1, length), int)).targets.shape[1] - length:+d}"}


@named
def gradient_step(theta, rate):
    """θ after one step of gradient descent on θ², and the loss before."""
    y, cache = linear.linear(np.ones((1, 1)), np.array([[theta]], dtype=float))
    _, grads = linear.linear_backward(2 * y, cache)
    return theta - rate * grads["w"].item(), y.item() ** 2


# ---- the shift, and what leaks without a mask ----
@claim("d2-s2-shifted-target")
def shifted():
    inputs, targets, *_ = loss.next_token(np.array([[10, 11, 12, 13]]))
    return {"inputs": inputs[0].tolist(), "targets": targets[0].tolist()}


VOCAB, TIME, WIDTH = 8, 16, 32
WEIGHTS = ("w_q", "w_k", "w_v", "w_o")


def loss_of_one_layer(params, tokens, causal):
    """Next-token loss of one layer of attention with rotated queries and keys, and a function that gives its gradients."""
    inputs, targets, *_ = loss.next_token(tokens)
    x, looked = embedding.embedding(inputs, params["embedding"])
    weights = (params[name] for name in WEIGHTS)
    mixed, attended = attention.multi_head_attention(x, x, *weights, n_heads=1, causal=causal, positions=np.arange(TIME - 1))
    logits, out = linear.linear(x + mixed, params["output"])
    value, dlogits = loss.cross_entropy(logits, targets)

    def gradients():
        dsum, output = linear.linear_backward(dlogits, out)
        ways, grads = attention.multi_head_attention_backward(dsum, attended)
        table = embedding.embedding_backward(dsum + sum(ways), looked)[1]["table"]
        return grads | {"output": output["w"], "embedding": table}

    return value, gradients


def random_tokens(count, seed):
    """Every token drawn on its own: nothing that came before tells which is next."""
    return np.random.default_rng(seed).integers(0, VOCAB, (count, TIME))


def train(causal, steps=300):
    """Trained on fresh random tokens: the parameters, and the mean of the last losses."""
    params = {"embedding": draw(VOCAB, WIDTH) / math.sqrt(WIDTH), "output": draw(WIDTH, VOCAB) / math.sqrt(WIDTH)}
    params |= {name: draw(WIDTH, WIDTH, seed=i) / math.sqrt(WIDTH) for i, name in enumerate(WEIGHTS)}
    state, losses = None, []
    for step in range(steps):
        value, gradients = loss_of_one_layer(params, random_tokens(16, step), causal)
        params, state = optimizer.adam(params, gradients(), state, lr=0.01)
        losses.append(value)
    return params, float(np.mean(losses[-20:]))


@named
@functools.cache
def leakage():
    """What training with and without the causal mask seems to reach, and what the leaky model is worth."""
    leaky, leaky_loss = train(causal=False)
    _, honest_loss = train(causal=True)
    used, _ = loss_of_one_layer(leaky, random_tokens(500, seed=1000), causal=True)
    return {"chance": math.log(VOCAB), "leaky": leaky_loss, "honest": honest_loss, "leaky, used": used}


# ---- two masks ----
PAD, SENTENCE = 0, [3, 1, 4, 1, 2]


def padded_loss(pad_row, attention_mask, loss_mask):
    """Loss of one layer of attention on a sentence padded on the left, where later positions can see the padding."""
    tokens = np.array([[PAD, PAD, *SENTENCE]])
    inputs, targets, *_ = loss.next_token(tokens)
    scored = (inputs != PAD) & (targets != PAD) if loss_mask else None
    x = np.vstack([pad_row, draw(4, 6)])[inputs]
    weights = [draw(6, 6, seed=i) for i in range(4)]
    mixed, _ = attention.multi_head_attention(x, x, *weights, 2, (inputs != PAD)[:, None, None] if attention_mask else None, causal=True)
    return loss.cross_entropy((x + mixed) @ draw(6, 5), targets, mask=scored)[0]


@named
def padding_counts(**masks):
    """Whether another row for the padding gives another loss."""
    return abs(padded_loss(draw(1, 6), **masks) - padded_loss(draw(1, 6, seed=1), **masks)) > 1e-12


# ---- prompts ----
@claim("d2-s2-prompt-not-weights")
def two_prompts():
    case = toy.decoder()
    kept = {name: value.copy() for name, value in case.params.items()}
    first, second = (softmax.softmax(decoder.forward(case.params, case.config, np.array([prompt])).logits[0, -1])[0] for prompt in ([0, 3, 1], [0, 8, 8]))
    return {
        "weights_equal_after_two_prompts": all(np.array_equal(kept[name], case.params[name]) for name in kept),
        "output_distributions_differ": bool((first != second).any()),
    }
