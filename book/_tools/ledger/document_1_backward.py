"""Document 1, the backward pass. Each printed formula, and the package, against derivatives by complex step."""

import functools
from types import SimpleNamespace

import numpy as np

from byhand import toy
from byhand.numpy import attention, feed_forward, linear, loss, norm, transformer

from . import claim, extra, named
from .samples import (
    attention_gradients,
    by_complex_step,
    draw,
    largest,
    plain_attention,
    plain_feed_forward,
    plain_layer_norm,
    plain_softmax,
    recorded,
    value,
)


# ---- logits ----
def smoothed_loss(z, q):
    return -(q * np.log(plain_softmax(z))).sum()


@claim("d1-bwd-p-minus-q")
def logit_gradient_formula():
    logits, targets = draw(2, 3, 5), np.array([[0, 4, 1], [2, 2, 3]])
    q = loss.smoothed_targets(targets, 5, 0.1)
    witness = by_complex_step(lambda z: smoothed_loss(z, q), logits)
    _, dlogits = loss.cross_entropy(logits, targets, smoothing=0.1, reduction="sum")
    return largest(plain_softmax(logits) - q - witness, dlogits - witness)


@extra("d1-bwd-p-minus-q")
def when_q_does_not_sum_to_one():
    z, q = value("logits")[0, 1], np.array([0.2, 0.2, 0.2, 0.2])
    p, witness = plain_softmax(z), by_complex_step(lambda z: smoothed_loss(z, q), z)
    return {
        "error_when_q_sums_to_0_8": largest(p - q - witness),
        "corrected_formula_residual_below_1e12": largest(p * q.sum() - q - witness) < 1e-12,
    }


# ---- layer norm ----
def printed_layer_norm_backward(x, gamma, dy, eps):
    """The formula as printed, with γ in front; σ² stands for σ² + ε."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True) + eps
    along_deviation = centred / variance * (dy * centred).mean(axis=-1, keepdims=True)
    return gamma / np.sqrt(variance) * (dy - dy.mean(axis=-1, keepdims=True) - along_deviation)


def layer_norm_gradients(gamma, eps, x, dy):
    """The printed formula, the package's rule, and the derivative by complex step."""
    zero = np.zeros(x.shape[-1])
    gammas = np.broadcast_to(gamma, zero.shape)
    _, cache = norm.layer_norm(x, gammas, zero, eps)
    witness = by_complex_step(lambda x: (dy * plain_layer_norm(x, gammas, zero, eps)).sum(), x)
    return printed_layer_norm_backward(x, gamma, dy, eps), norm.layer_norm_backward(dy, cache)[0], witness


@claim("d1-bwd-ln-formula")
def layer_norm_formula():
    found = [layer_norm_gradients(1.5, eps, draw(2, 4), draw(2, 4, seed=1)) for eps in (0.0, 0.1)]
    return largest(*(side - witness for printed, package, witness in found for side in (printed, package)))


LAST_NORM = "decoder.0.norm_3"


def lively_norm(eps, gamma=None):
    """The last norm of `lively`, whose γ differ, with the rows and the gradient that really reach it."""
    gamma = value(f"toy.lively:{LAST_NORM}.gamma") if gamma is None else gamma
    x, dy = (value(f"toy.lively:{name}")[0] for name in ("decoder.0.residual_3", f"gradient.{LAST_NORM}.out"))
    return x, dy, layer_norm_gradients(gamma, eps, x, dy)


@extra("d1-bwd-ln-formula")
def layer_norm_formula_with_a_vector():
    _, _, (printed, package, witness) = lively_norm(eps=1e-5)
    return {
        "error_for_vector_gamma": largest(printed - witness),
        "error_of_correct_vector_form_below_1e12": largest(package - witness) < 1e-12,
    }


def component(dx, direction):
    """The largest part of any row of dx along its row of directions."""
    unit = direction / np.linalg.norm(direction, axis=-1, keepdims=True)
    return largest((dx * unit).sum(axis=-1))


@claim("d1-bwd-ln-strips")
def what_the_two_sums_remove():
    x, _, (_, exact, _) = lively_norm(eps=0.0)
    _, _, (_, damped, _) = lively_norm(eps=0.1)
    deviation = x - x.mean(axis=-1, keepdims=True)
    return {
        "along_ones_eps0": component(exact, np.ones_like(x)) < 1e-12,
        "along_deviation_eps0": component(exact, deviation) < 1e-12,
        "along_ones_eps_0_1": component(damped, np.ones_like(x)) < 1e-12,
        "along_deviation_eps_0_1": component(damped, deviation),
    }


@claim("d1-bwd-ln-not-division")
def not_a_division():
    x, dy, (_, package, _) = lively_norm(eps=0.0, gamma=np.ones(4))
    return {"max_difference_from_dy_over_sigma": largest(package - dy / x.std(axis=-1, keepdims=True))}


# ---- feed-forward ----
def gated():
    """A feed-forward network with a gradient from above: its gradients at x w₁ + b₁, by formula, package and complex step."""
    x, w_1, b_1, w_2, b_2, dy = draw(1, 3, 4), draw(4, 7), draw(7), draw(7, 4), draw(4), draw(1, 3, 4, seed=1)
    _, cache = feed_forward.feed_forward(x, w_1, b_1, w_2, b_2)
    hidden = x @ w_1 + b_1
    witness = by_complex_step(lambda h: (dy * plain_feed_forward(h, np.eye(7), 0, w_2, b_2)).sum(), hidden)
    return hidden, (dy @ w_2.T) * (hidden > 0), recorded(feed_forward.feed_forward_backward, dy, cache)[1].hidden, witness


@claim("d1-bwd-ffn-formula")
def gate_formula():
    _, printed, package, witness = gated()
    return largest(printed - witness, package - witness)


@claim("d1-bwd-relu-zero")
def closed_gate():
    hidden, _, package, _ = gated()
    at_zero, _ = feed_forward.relu_backward(np.ones(2), feed_forward.relu(np.array([0.0, -1.0]))[1])
    return {"gradient_at_nonpositive": largest(package[hidden <= 0], at_zero)}


# ---- attention ----
@functools.cache
def attention_pass(heads=2, t_q=3):
    """The package's pass on a sample with its stages, the gradient dy from above, and the package's gradients."""
    q, k, v, dy = draw(1, heads, t_q, 4), draw(1, heads, 5, 4), draw(1, heads, 5, 6), draw(1, heads, t_q, 6)
    (y, cache), stages = recorded(attention.attention, q, k, v)
    return SimpleNamespace(**vars(stages), q=q, k=k, v=v, y=y, dy=dy, cache=cache, gradients=attention_gradients(dy, cache))


def turned(x):
    return x.swapaxes(-1, -2)


PRINTED = {  # the rules, by what they are the gradient of
    "v": lambda o: turned(o.weights) @ o.dy,
    "weights": lambda o: o.dy @ turned(o.v),
    "scores": lambda o: o.weights * (o.gradients.weights - (o.gradients.weights * o.weights).sum(axis=-1, keepdims=True)),
    "q": lambda o: o.gradients.scores @ o.k / np.sqrt(4),
    "k": lambda o: turned(o.gradients.scores) @ o.q / np.sqrt(4),
    "scores of one row": lambda o: o.weights * ((o.v - o.y) * o.dy).sum(axis=-1)[..., None, :],
}


@named
def attention_rule(stage, heads=2, t_q=3, rule=None):
    """How far a printed rule and the package lie from the derivative by complex step."""
    o = attention_pass(heads, t_q)

    def output(x):
        if stage in ("weights", "scores"):
            return (x if stage == "weights" else plain_softmax(x)) @ o.v
        return plain_attention(**({"q": o.q, "k": o.k, "v": o.v} | {stage: x}))

    witness = by_complex_step(lambda x: (o.dy * output(x)).sum(), getattr(o, stage))
    return largest(PRINTED[rule or stage](o) - witness, getattr(o.gradients, stage) - witness)


def heads(x):
    return x.reshape(1, -1, 2, 2).swapaxes(1, 2)


def self_attention_sample(causal=False):
    """Two heads of width 2 on three rows: the rows, the weights, the concatenation and its cache."""
    x, weights = draw(1, 3, 4), [draw(4, 4, seed=i) for i in range(4)]
    y, cache = attention.multi_head_attention(x, x, *weights, n_heads=2, causal=causal)
    return x, weights, y, cache


@claim("d1-bwd-dwq")
def query_weight_gradient():
    x, (w_q, w_k, w_v, w_o), y, cache = self_attention_sample()
    dy = draw(*y.shape, seed=9)

    def loss_with(w_q):
        mixed = plain_attention(heads(x @ w_q), heads(x @ w_k), heads(x @ w_v))
        return (dy * (mixed.swapaxes(1, 2).reshape(1, 3, 4) @ w_o)).sum()

    (_, package), stages = recorded(attention.multi_head_attention_backward, dy, cache)
    printed = x[0].T @ attention.merge_heads(stages.q)[0]
    witness = by_complex_step(loss_with, w_q)
    return largest(printed - witness, package["w_q"] - witness)


@claim("d1-bwd-masked-zero")
def masked_entries():
    q, k, v, dy = draw(1, 1, 4, 3), draw(1, 1, 4, 3, seed=1), draw(1, 1, 4, 3, seed=2), draw(1, 1, 4, 3, seed=3)
    (_, cache), stages = recorded(attention.attention, q, k, v, causal=True)
    gradients = attention_gradients(dy, cache)
    future = np.triu(np.ones((4, 4), bool), 1)
    filled = plain_softmax(np.where(future, -10.0, stages.scores))
    return {
        "max_masked_weight": largest(cache.weights[0, 0][future]),
        "max_masked_score_gradient": largest(gradients.scores[0, 0][future]),
        "masked_weight_gradient_dA_nonzero": bool((gradients.weights[0, 0][future] != 0).all()),
        "last_key_row_still_gets_gradient": bool((gradients.k[0, 0, -1] != 0).any()),
        "finite_fill_minus10_leaks_weight": bool((filled[0, 0][future] > 0).all()),
    }


@claim("d1-bwd-causality")
def gradient_to_the_future():
    x, _, y, cache = self_attention_sample(causal=True)
    reach = np.zeros((3, 3))  # from the output at one position to the input at another
    for t in range(3):
        dy = np.zeros_like(y)
        dy[0, t] = draw(4)
        ways, _ = attention.multi_head_attention_backward(dy, cache)
        reach[t] = np.abs(sum(ways))[0].max(axis=-1)
    return {
        "max_gradient_to_future": largest(np.triu(reach, 1)),
        "min_gradient_to_self_or_past_positive": bool((reach[np.tri(3, dtype=bool)] > 0).all()),
    }


@claim("d1-bwd-sum-positions-heads")
def what_adds_up():
    x, _, y, cache = self_attention_sample()
    dconcat = draw(*y.shape, seed=9)
    without_head_2 = np.where(np.arange(4) < 2, dconcat, 0)
    cache = cache._replace(out=cache.out._replace(w=np.eye(4)))  # so that the gradient from above is the concatenation's

    def gradients(dy):
        ways, grads = attention.multi_head_attention_backward(dy, cache)
        return sum(ways), grads["w_q"]

    dx, dw_q = gradients(dconcat)
    dx_1, dw_q_1 = gradients(without_head_2)
    by_position = sum(gradients(np.where(np.arange(3)[:, None] == t, dconcat, 0))[1] for t in range(3))
    return {
        "wq_head1_unchanged_when_head2_gets_no_gradient": largest(dw_q[:, :2] - dw_q_1[:, :2]) < 1e-12,
        "input_gradient_does_change": largest(dx - dx_1) > 0,
        "position_sum_residual_below_1e12": largest(by_position - dw_q) < 1e-12,
    }


# ---- one pattern ----
@claim("d1-bwd-linear-shapes")
def gradient_shapes():
    dx, grads = linear.linear_backward(draw(3, 2), linear.linear(draw(3, 4), draw(4, 2))[1])
    return [grads["w"].shape, dx.shape]


def matrix_rule():
    x, w, g = draw(3, 4), draw(4, 2), draw(3, 2)
    return x, w, g, *linear.linear_backward(g, linear.linear(x, w)[1])


@claim("d1-bwd-linear-dw")
@claim("d1-bwd-dwout-formula")
def weight_rule():
    x, w, g, _, grads = matrix_rule()
    witness = by_complex_step(lambda w: (g * (x @ w)).sum(), w)
    return largest(x.T @ g - witness, grads["w"] - witness)


@claim("d1-bwd-linear-dx")
@claim("d1-bwd-dh-formula")
def input_rule():
    x, w, g, dx, _ = matrix_rule()
    witness = by_complex_step(lambda x: (g * (x @ w)).sum(), x)
    return largest(g @ w.T - witness, dx - witness)


# ---- invariants of the whole pass ----
EXAMPLES = ("document", "exact", "lively", "generic")


def passes():
    """Every worked example, forward and backward with every step kept."""
    for name in EXAMPLES:
        case = getattr(toy, name)()
        out = transformer.forward(case.params, case.config, case.source, case.decoder_input, case.source_lengths, case.target_lengths)
        _, dlogits = loss.cross_entropy(out.logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction)
        yield case, out.activations, transformer.gradients(dlogits, out.cache).stages


@claim("d1-inv-attention-rows")
def attention_rows():
    sums = [a.sum(axis=-1) for _, activations, _ in passes() for name, a in activations.items() if name.endswith("attention.weights")]
    return {"max_row_sum_error_below_1e12": largest(*(row - 1 for row in sums)) < 1e-12}


@claim("d1-inv-masked")
def masked_in_every_example():
    weights, gradients = [], []
    for case, activations, stages in passes():
        time = case.decoder_input.shape[1]
        for layer in range(case.config.n_layers):
            name = f"decoder.{layer}.self_attention"
            future = np.triu(np.ones((time, time), bool), 1)
            weights.append(activations[f"{name}.weights"][..., future])
            gradients.append(stages[f"{name}.scores"][..., future])
    return {"max_masked_weight": largest(*weights), "max_masked_score_gradient": largest(*gradients)}
