import json
import re
from pathlib import Path

import numpy as np
import pytest

import byhand.numpy as bn
from byhand.check.exercise import attempt
from byhand.check.exercises import EXERCISES
from byhand.config import Config
from byhand.parameters import encoder_decoder_shapes


def one_head(q, k, v, **how):
    return bn.attention.attention(q[None, None], k[None, None], v[None, None], **how)[0][0, 0]


def one_head_backward(dy, q, k, v):
    _, cache = bn.attention.attention(q[None, None], k[None, None], v[None, None])
    return tuple(x[0, 0] for x in bn.attention.attention_backward(dy[None, None], cache))


def linear_backward(dy, x, w):
    dx, grads = bn.linear.linear_backward(dy, bn.linear.LinearCache(x, w, True))
    return dx, grads["w"], grads["b"]


def norm_backward(dy, x, gamma, eps):
    return bn.norm.layer_norm_backward(dy, bn.norm.layer_norm(x, gamma, 0 * gamma, eps)[1])[0]


def feed_forward_backward(dy, x, w_1, b_1, w_2):
    _, cache = bn.feed_forward.feed_forward(x, w_1, b_1, w_2, np.zeros(w_2.shape[1]))
    dx, grads, _ = bn.feed_forward.feed_forward_backward(dy, cache)
    return dx, grads["w_1"], grads["w_2"]


def scatter(tokens, dy, vocab):
    cache = bn.embedding.EmbeddingCache(tokens[None], (vocab, dy.shape[1]))
    return bn.embedding.embedding_backward(dy[None], cache)[1]["table"]


def adam(w, g, m, v, t, lr):
    named = ({"w": x} for x in (w, g))
    new, state = bn.optimizer.adam(*named, bn.optimizer.AdamState(t - 1, {"w": m}, {"w": v}), lr=lr)
    return new["w"], state.m["w"], state.v["w"]


def parameters(d, d_ff, layers, vocab):
    shapes = encoder_decoder_shapes(Config(d_model=d, n_heads=2, d_ff=d_ff, n_layers=layers, source_vocab=vocab, target_vocab=vocab, tied=True))
    return sum(np.prod(shape) for name, shape in shapes.items() if name not in ("source_embedding", "output.b"))


PACKAGE = {
    "embedding": lambda tokens, table: bn.embedding.embedding(tokens[None], table)[0][0],
    "positions": bn.position.sinusoidal,
    "heads": lambda x, w, n: bn.attention.split_heads((x @ w)[None], n)[0],
    "attention": one_head,
    "masked_attention": lambda q, k, v: one_head(q, k, v, causal=True),
    "cross_attention": lambda x, memory, w_q, w_k, w_v: one_head(x @ w_q, memory @ w_k, memory @ w_v),
    "layer_norm": lambda *arguments: bn.norm.layer_norm(*arguments)[0],
    "feed_forward": lambda *arguments: bn.feed_forward.feed_forward(*arguments)[0],
    "probabilities": lambda h, w, b: bn.softmax.softmax(h @ w + b)[0],
    "loss": lambda z, target, smoothing: bn.loss.cross_entropy(z[None, None], np.array([[target]]), smoothing)[0],
    "logits": lambda z, targets, smoothing: bn.loss.cross_entropy(z[None], targets[None], smoothing)[1][0],
    "linear_backward": linear_backward,
    "layer_norm_backward": norm_backward,
    "feed_forward_backward": feed_forward_backward,
    "softmax_backward": lambda da, a: bn.softmax.softmax_backward(da, bn.softmax.SoftmaxCache(a))[0],
    "attention_backward": one_head_backward,
    "embedding_backward": scatter,
    "matrix_backward": lambda x, w, dy: linear_backward(dy, x, w)[:2],
    "adam": adam,
    "parameters": parameters,
}


@pytest.mark.parametrize("name", PACKAGE)
def test_what_is_wanted_is_what_the_package_computes(name):
    assert attempt(PACKAGE[name], name), attempt(PACKAGE[name], name)


@pytest.mark.parametrize("name", EXERCISES)
def test_each_known_mistake_is_refused_under_its_own_name(name):
    exercise = EXERCISES[name]
    assert attempt(exercise.answer, name)
    for mistake, switches in (exercise.mistakes | exercise.parts).items():
        verdict = attempt(lambda *sample: exercise.answer(*sample, **switches), name)
        assert not verdict and f"when {mistake}" in repr(verdict), (mistake, verdict)


def test_every_exercise_stands_on_a_page_in_a_cell_of_a_few_lines():
    book, found = Path(__file__).parents[2] / "book", set()
    for page in (*book.glob("step/*.ipynb"), *book.glob("workshop/*.ipynb")):
        for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and "# your code" in source:
                found |= set(re.findall(r'attempt\(my_\w+, "(\w+)"\)', source))
                assert len(source.splitlines()) <= 8, page
    assert found == EXERCISES.keys()


def test_two_known_mistakes_are_said_to_be_two():
    def unscaled_and_over_columns(q, k, v):
        return soft(q @ k.T, axis=0) @ v

    verdict = repr(attempt(unscaled_and_over_columns, "attention"))
    assert "two things are wrong: 1/√d_k is forgotten; and the softmax runs over the queries" in verdict


def test_arrays_in_another_order_and_too_few_of_them_are_said_to_be_so():
    def turned(x, w, dy):
        return linear_backward(dy, x, w)[1::-1]

    assert "in the order dw, dx; it must be dx, dw" in repr(attempt(turned, "matrix_backward"))
    assert "2 arrays wanted, 1 returned: yours are dw" in repr(attempt(lambda x, w, dy: turned(x, w, dy)[0], "matrix_backward"))


def test_a_name_that_is_no_exercise():
    with pytest.raises(ValueError, match="reference was 'attenshun'; it must be a function, or one of embedding, positions"):
        attempt(one_head, "attenshun")


NONSENSE = (
    lambda *a: 1.0, lambda *a: "x", lambda *a: (), lambda *a: [], lambda *a: np.nan, lambda *a: np.ones((2, 2)), lambda *a: {"dx": 1.0},
    lambda *a: np.ones(0), lambda *a: a[0], lambda *a: 1 / 0, lambda *a: (a, a), lambda: 1.0, lambda *a: 1e300 * np.ones((3, 3)) ** 2,
)  # fmt: skip


@pytest.mark.parametrize("name", EXERCISES)
def test_nonsense_is_refused_in_words(name):
    for answer in NONSENSE:
        verdict = attempt(answer, name)
        assert not verdict and repr(verdict).startswith("Not yet: ")


# ---- sixty wrong answers to ten exercises, written down before the verdicts were improved ---------


def soft(s, axis=-1):
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


# ---- attention(q, k, v) ----


def a_number_of_keys(q, k, v):
    return soft(q @ k.T / np.sqrt(len(k))) @ v


def a_multiplied(q, k, v):
    return soft(q @ k.T * np.sqrt(q.shape[1])) @ v


def a_without_e(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    return s / s.sum(axis=1, keepdims=True) @ v


def a_weights(q, k, v):
    return soft(q @ k.T / np.sqrt(q.shape[1]))


def a_not_transposed(q, k, v):
    scores = q @ k / np.sqrt(q.shape[1])
    return soft(scores) @ v


def a_one_sum(q, k, v):
    e = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return e / e.sum() @ v


# ---- layer_norm(x, gamma, beta, eps) ----


def n_no_gamma(x, gamma, beta, eps):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + eps) + beta


def n_no_beta(x, gamma, beta, eps):
    return gamma * (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + eps)


def n_no_root(x, gamma, beta, eps):
    return gamma * (x - x.mean(1, keepdims=True)) / (x.var(1, keepdims=True) + eps) + beta


def n_not_centred(x, gamma, beta, eps):
    return gamma * x / np.sqrt(x.var(1, keepdims=True) + eps) + beta


def n_whole_array(x, gamma, beta, eps):
    return gamma * (x - x.mean()) / np.sqrt(x.var() + eps) + beta


def n_shapes(x, gamma, beta, eps):
    mean = x.mean(axis=1)
    return gamma * (x - mean) / np.sqrt(x.var(axis=1) + eps) + beta


# ---- masked_attention(q, k, v) ----


def m_itself_hidden(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    s[np.triu_indices(len(q), 0)] = -1e9
    return soft(s) @ v


def m_one_ahead(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    s[np.triu_indices(len(q), 2)] = -np.inf
    return soft(s) @ v


def m_small_negative(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    s[np.triu_indices(len(q), 1)] = -1e-9
    return soft(s) @ v


def m_unscaled(q, k, v):
    s = q @ k.T
    s[np.triu_indices(len(q), 1)] = -np.inf
    return soft(s) @ v


def m_over_columns(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    s[np.triu_indices(len(q), 1)] = -np.inf
    return soft(s, axis=0) @ v


def m_not_a_number(q, k, v):
    hidden = 1 - np.tri(len(q))
    s = q @ k.T / np.sqrt(q.shape[1]) + hidden * -np.inf
    return soft(s) @ v


# ---- loss(z, target, smoothing) ----


def l_sign(z, target, smoothing):
    q = np.full(len(z), smoothing / len(z))
    q[target] += 1 - smoothing
    return (q * np.log(soft(z))).sum()


def l_binary_log(z, target, smoothing):
    q = np.full(len(z), smoothing / len(z))
    q[target] += 1 - smoothing
    return -(q * np.log2(soft(z))).sum()


def l_target_share(z, target, smoothing):
    q = np.full(len(z), smoothing / len(z))
    q[target] = 1 - smoothing
    return -(q * np.log(soft(z))).sum()


def l_mean(z, target, smoothing):
    q = np.full(len(z), smoothing / len(z))
    q[target] += 1 - smoothing
    return -(q * np.log(soft(z))).mean()


def l_entries(z, target, smoothing):
    q = np.full(len(z), smoothing / len(z))
    q[target] += 1 - smoothing
    return -q * np.log(soft(z))


def l_no_softmax(z, target, smoothing):
    q = np.full(len(z), smoothing / len(z))
    q[target] += 1 - smoothing
    return -(q * np.log(z)).sum()


# ---- logits(z, targets, smoothing) ----


def z_only_p(z, targets, smoothing):
    return soft(z) / len(z)


def z_target_share(z, targets, smoothing):
    q = np.full(z.shape, smoothing / z.shape[1])
    q[np.arange(len(z)), targets] = 1 - smoothing
    return (soft(z) - q) / len(z)


def z_all_rows(z, targets, smoothing):
    q = np.full(z.shape, smoothing / z.shape[1])
    q[:, targets] += 1 - smoothing
    return (soft(z) - q) / len(z)


def z_twice(z, targets, smoothing):
    p = soft(z)
    q = (1 - smoothing) * np.eye(z.shape[1])[targets] + smoothing / z.shape[1]
    return p * (1 - p) * (p - q) / len(z)


def z_columns(z, targets, smoothing):
    q = (1 - smoothing) * np.eye(z.shape[1])[targets] + smoothing / z.shape[1]
    return (soft(z, axis=0) - q) / len(z)


def z_sign_and_sum(z, targets, smoothing):
    q = (1 - smoothing) * np.eye(z.shape[1])[targets] + smoothing / z.shape[1]
    return q - soft(z)


# ---- linear_backward(dy, x, w) ----


def w_two_of_three(dy, x, w):
    return dy @ w.T, x.T @ dy


def w_order(dy, x, w):
    return x.T @ dy, dy @ w.T, dy.sum(0)


def w_bias_rows(dy, x, w):
    return dy @ w.T, x.T @ dy, dy


def w_bias_kept(dy, x, w):
    return dy @ w.T, x.T @ dy, dy.sum(axis=0, keepdims=True)


def w_times_x(dy, x, w):
    return dy @ w.T * x, x.T @ dy, dy.sum(0)


def w_from_w(dy, x, w):
    return dy @ w.T, w.T @ dy, dy.sum(0)


# ---- layer_norm_backward(dy, x, gamma, eps) ----


def hat_and_root(x, eps):
    root = np.sqrt(x.var(1, keepdims=True) + eps)
    return (x - x.mean(1, keepdims=True)) / root, root


def r_plus(dy, x, gamma, eps):
    hat, root = hat_and_root(x, eps)
    g = gamma * dy
    return (g + g.mean(1, keepdims=True) + hat * (g * hat).mean(1, keepdims=True)) / root


def r_sums(dy, x, gamma, eps):
    hat, root = hat_and_root(x, eps)
    g = gamma * dy
    return (g - g.sum(1, keepdims=True) - hat * (g * hat).sum(1, keepdims=True)) / root


def r_variance(dy, x, gamma, eps):
    hat, root = hat_and_root(x, eps)
    g = gamma * dy
    return (g - g.mean(1, keepdims=True) - hat * (g * hat).mean(1, keepdims=True)) / root**2


def r_no_division(dy, x, gamma, eps):
    hat, root = hat_and_root(x, eps)
    g = gamma * dy
    return g - g.mean(1, keepdims=True) - hat * (g * hat).mean(1, keepdims=True)


def r_columns(dy, x, gamma, eps):
    hat, root = hat_and_root(x, eps)
    g = gamma * dy
    return (g - g.mean(0) - hat * (g * hat).mean(0)) / root


def r_no_hat(dy, x, gamma, eps):
    hat, root = hat_and_root(x, eps)
    g = gamma * dy
    return (g - g.mean(1, keepdims=True) - (g * hat).mean(1, keepdims=True)) / root


# ---- attention_backward(dy, q, k, v) ----


def parts(dy, q, k, v):
    root = np.sqrt(q.shape[1])
    a = soft(q @ k.T / root)
    da = dy @ v.T
    return root, a, a * (da - (da * a).sum(1, keepdims=True))


def b_key_not_turned(dy, q, k, v):
    root, a, ds = parts(dy, q, k, v)
    return ds @ k / root, ds @ q / root, a.T @ dy


def b_value_not_turned(dy, q, k, v):
    root, a, ds = parts(dy, q, k, v)
    return ds @ k / root, ds.T @ q / root, a @ dy


def b_order(dy, q, k, v):
    root, a, ds = parts(dy, q, k, v)
    return a.T @ dy, ds @ k / root, ds.T @ q / root


def b_no_sum(dy, q, k, v):
    root, a, _ = parts(dy, q, k, v)
    ds = a * (dy @ v.T)
    return ds @ k / root, ds.T @ q / root, a.T @ dy


def b_value_width(dy, q, k, v):
    _, a, ds = parts(dy, q, k, v)
    root = np.sqrt(v.shape[1])
    return ds @ k / root, ds.T @ q / root, a.T @ dy


def b_queries_and_keys_exchanged(dy, q, k, v):
    root, a, ds = parts(dy, q, k, v)
    return ds @ q / root, ds.T @ k / root, a.T @ dy


# ---- feed_forward_backward(dy, x, w_1, b_1, w_2) ----


def f_gate_of_input(dy, x, w_1, b_1, w_2):
    u = x @ w_1 + b_1
    du = (dy @ w_2.T) * (np.abs(x).sum(1, keepdims=True) > 0)
    return du @ w_1.T, x.T @ du, np.maximum(u, 0).T @ dy


def f_turned(dy, x, w_1, b_1, w_2):
    u = x @ w_1 + b_1
    du = (dy @ w_2.T) * (u > 0)
    return du @ w_1.T, du.T @ x, np.maximum(u, 0).T @ dy


def f_no_bias(dy, x, w_1, b_1, w_2):
    u = x @ w_1
    du = (dy @ w_2.T) * (u > 0)
    return du @ w_1.T, x.T @ du, np.maximum(u, 0).T @ dy


def f_shape(dy, x, w_1, b_1, w_2):
    u = x @ w_1 + b_1
    du = dy @ w_2 * (u > 0)
    return du @ w_1.T, x.T @ du, np.maximum(u, 0).T @ dy


def f_around(dy, x, w_1, b_1, w_2):
    u = x @ w_1 + b_1
    du = (dy @ w_2.T) * (u > 0)
    return dy + du @ w_1.T, x.T @ du, np.maximum(u, 0).T @ dy


def f_negative_gate(dy, x, w_1, b_1, w_2):
    u = x @ w_1 + b_1
    du = (dy @ w_2.T) * (u < 0)
    return du @ w_1.T, x.T @ du, np.maximum(u, 0).T @ dy


# ---- adam(w, g, m, v, t, lr) ----


def o_eps_inside(w, g, m, v, t, lr):
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
    return w - lr * (m / (1 - 0.9**t)) / np.sqrt(v / (1 - 0.98**t) + 1e-9), m, v


def o_uphill(w, g, m, v, t, lr):
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
    return w + lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-9), m, v


def o_not_squared(w, g, m, v, t, lr):
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * np.abs(g)
    return w - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-9), m, v


def o_last_step(w, g, m, v, t, lr):
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
    return w - lr * (m / (1 - 0.9 ** (t - 1))) / (np.sqrt(v / (1 - 0.98 ** (t - 1))) + 1e-9), m, v


def o_corrected_kept(w, g, m, v, t, lr):
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
    m, v = m / (1 - 0.9**t), v / (1 - 0.98**t)
    return w - lr * m / (np.sqrt(v) + 1e-9), m, v


def o_other_beta(w, g, m, v, t, lr):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-9), m, v


ANSWERS = {
    "attention": (a_number_of_keys, a_multiplied, a_without_e, a_weights, a_not_transposed, a_one_sum),
    "layer_norm": (n_no_gamma, n_no_beta, n_no_root, n_not_centred, n_whole_array, n_shapes),
    "masked_attention": (m_itself_hidden, m_one_ahead, m_small_negative, m_unscaled, m_over_columns, m_not_a_number),
    "loss": (l_sign, l_binary_log, l_target_share, l_mean, l_entries, l_no_softmax),
    "logits": (z_only_p, z_target_share, z_all_rows, z_twice, z_columns, z_sign_and_sum),
    "linear_backward": (w_two_of_three, w_order, w_bias_rows, w_bias_kept, w_times_x, w_from_w),
    "layer_norm_backward": (r_plus, r_sums, r_variance, r_no_division, r_columns, r_no_hat),
    "attention_backward": (b_key_not_turned, b_value_not_turned, b_order, b_no_sum, b_value_width, b_queries_and_keys_exchanged),
    "feed_forward_backward": (f_gate_of_input, f_turned, f_no_bias, f_shape, f_around, f_negative_gate),
    "adam": (o_eps_inside, o_uphill, o_not_squared, o_last_step, o_corrected_kept, o_other_beta),
}
def test_wrong_answers_are_named_or_located_and_none_passes():
    found = {}
    for name, answers in ANSWERS.items():
        for answer in answers:
            verdict = attempt(answer, name)
            assert not verdict, answer
            found[answer.__name__] = any(words in repr(verdict) for words in ("comes out when", "in your line", "in the order", "yours are", "looks like"))
    assert len(found) == 60
    assert [name for name, named in found.items() if not named] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_right_in_other_ways(name):
    """Written over its arguments, in single precision, as a list of lists: right all the same, and the next one gets arguments of its own."""

    def each(out, change):
        return tuple(map(change, out)) if isinstance(out, tuple) else change(out)

    def in_place(*arguments):
        out = EXERCISES[name].answer(*arguments)
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                argument[...] = 0
        return out

    assert attempt(in_place, name)
    assert attempt(lambda *arguments: each(EXERCISES[name].answer(*arguments), np.float32), name)
    assert attempt(lambda *arguments: each(EXERCISES[name].answer(*arguments), lambda x: np.asarray(x).tolist()), name)
