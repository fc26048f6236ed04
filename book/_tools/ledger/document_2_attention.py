"""Document 2, attention: the takeaways on it, experiment 1, sections 3 and 4."""

import itertools
import math

import numpy as np

from byhand.numpy import attention, softmax
from byhand.worked.experiments import AttentionTable

from . import claim, claims, named
from .samples import attention_gradients, draw, largest, letters, one_head, plain_attention, plain_softmax, recorded

Q, K, V = (np.array(claims.lookup(f"d2-s4-{name}")["exact"]) for name in ("q", "keys", "values"))
PROBE = np.array(claims.lookup("d2-s5-code-probe")["exact"])


@named
def worked_example():
    """The last row of section 4, and section 5's gradient of its scores, for the loss PROBE · y."""
    (y, cache), stages = recorded(attention.attention, Q[None, None, None], K[None, None], V[None, None])
    gradients = attention_gradients(PROBE[None, None, None], cache).scores
    found = {"scores": stages.scores, "weights": cache.weights, "output": y, "gradients": gradients}
    return {name: rows[0, 0, 0] for name, rows in found.items()}


# ---- takeaways ----
@claim("d2-take-routing")
def differentiable_and_content_dependent():
    q, k, v, dy = (draw(1, 1, 3, 4, seed=i) for i in range(4))
    _, cache = attention.attention(q, k, v)
    _, other = attention.attention(draw(1, 1, 3, 4, seed=9), k, v)
    return {
        "gradient_exists_nonzero": all((gradient != 0).any() for gradient in attention.attention_backward(dy, cache)),
        "weights_change_with_query": bool((cache.weights != other.weights).all()),
    }


@claim("d2-take-not-explanation")
def weights_and_what_they_contribute():
    a = worked_example()["weights"]
    sizes = np.linalg.norm(a[:, None] * V, axis=1)
    opposite_in_pairs = [[1, 0], [0, 2], [-1, 0], [0, -2]]
    y, _, weights = one_head([[1], [-1]], [[1], [0], [1], [0]], opposite_in_pairs)
    return {
        "weights_tied": a[0] == a[2],
        "contribution_norm_ratio_v3_to_v1": sizes[2] / sizes[0],
        "two_different_weight_rows_same_output": largest(y[0] - y[1]) < 1e-12 < largest(weights[0] - weights[1]),
    }


# ---- experiment 1 ----
@named
def attend(temperature=1.0):
    """The weights and the mixed values of the table."""
    return AttentionTable().attend(temperature)


@claim("d2-widget-temperature")
def what_the_temperature_divides():
    t = 0.5
    weights, cooler = attend()[0], attend(t)[0]
    powers = weights ** (1 / t)
    return {
        "softmax_of_scores_over_T_equals_weights_to_1_over_T": largest(powers / powers.sum(axis=1, keepdims=True) - cooler) < 1e-12,
        "dividing_the_weights_by_T_breaks_row_sum": (weights[2] / t).sum(),
    }


# ---- section 3: shapes ----
SIZES = {"n": 7, "d": 6, "dk": 3, "dv": 5}


@named
def shapes_of_a_head():
    """The shape of every array of one causal head in letters, after a pass in which every size differs."""
    n, d, d_k, d_v = SIZES.values()
    x, weights = draw(1, n, d), (draw(d, d_k), draw(d, d_k, seed=1), draw(d, d_v), draw(d_v, d))
    (_, cache), stages = recorded(attention.multi_head_attention, x, x, *weights, n_heads=1, causal=True)
    assert cache.q.w.shape == cache.k.w.shape  # the document gives W_Q and W_K one shape
    rows = {"q": stages.q, "k": stages.k, "v": stages.v, "s": stages.scores, "a": stages.weights, "y": stages.mixed}
    arrays = {"x": x[0], "wq": cache.q.w, "wv": cache.v.w} | {name: array[0, 0] for name, array in rows.items()}
    return {name: letters(array.shape, SIZES) for name, array in arrays.items()}


# ---- section 3: formula and mask ----
@claim("d2-s3-attention-formula")
def masked_attention_formula():
    q, k, v = draw(4, 3), draw(5, 3), draw(5, 2)
    mask = draw(4, 5, seed=1) > -0.5
    assert mask.any(axis=1).all() and not mask.all()
    m = np.where(mask, 0, -math.inf)
    by_hand = np.zeros((4, 2))
    for i in range(4):
        e = [math.exp(sum(q[i] * k[j]) / math.sqrt(3) + m[i, j]) for j in range(5)]
        for j in range(5):
            by_hand[i] += e[j] / sum(e) * v[j]
    return largest(one_head(q, k, v, mask=mask)[0] - by_hand)


@named
def causal_head(x):
    """One causal head on rows of width 4: output rows, scores and weights."""
    return one_head(*(x @ draw(4, 4, seed=i) for i in range(3)), causal=True)


PAST = np.tri(5, dtype=bool)


@claim("d2-s3-mask-values")
def mask_values():
    _, scores, weights = causal_head(draw(5, 4))
    m = np.where(PAST, 0, -np.inf)
    by_adding = plain_softmax(scores + m)
    return {"allowed_entries": largest(m[PAST]), "forbidden_weight": largest(weights[~PAST], by_adding[~PAST])}


@claim("d2-s3-causal")
def who_reads_whom():
    x, place = draw(5, 4), 3
    changed = x + 1.0 * (np.arange(5) == place)[:, None]
    difference = causal_head(changed)[0] - causal_head(x)[0]
    return {"earlier_outputs_change": largest(difference[:place]), "self_visible": bool((difference[place] != 0).all())}


@claim("d2-s3-all-masked")
def nothing_left_to_attend_to():
    nothing = np.zeros((1, 4), dtype=bool)
    assert not softmax.softmax(draw(1, 4), nothing)[0].any()  # the package's special handling: zeros
    with np.errstate(invalid="ignore"):
        by_minus_infinity = plain_softmax(draw(1, 4) - np.inf)
    return {
        "minus_inf_row_gives_nan": bool(np.isnan(by_minus_infinity).all()),
        "finite_fill_gives_uniform": softmax.softmax(np.where(nothing, draw(1, 4), -1e30))[0][0],
    }


# ---- section 3: variance ----
@named
def scores_of_all_signs(width=4):
    """Scaled scores of every query with every key whose coordinates are ±1: independent, of mean 0 and variance 1."""
    signs = np.array(list(itertools.product((-1, 1), repeat=width)))
    return one_head(signs, signs, signs)[1]


@claim("d2-s3-variance")
def variance_of_the_dot_product():
    q, k = draw(40000, 64), draw(40000, 64, seed=1)
    dots = scores_of_all_signs(4) * math.sqrt(4)
    return {
        "exact_variance_over_dk": dots.var() / 4,
        "monte_carlo_dk64_within_2_percent": abs((q * k).sum(axis=1).var() / 64 - 1) < 0.02,
        "mean_if_q_equals_k_dk64_within_1_percent": abs((q * q).sum(axis=1).mean() / 64 - 1) < 0.01,
    }


@named
def mean_top_weight(factor, width=64):
    """The strongest of 16 weights, on average over 1000 queries; the query is multiplied by a factor."""
    q, k = draw(1, 1000, 1, width), draw(1, 1000, 16, width)
    return attention.attention(factor * q, k, k)[1].weights.max(axis=-1).mean()


# ---- section 3: heads ----
def two_heads():
    """Rows, the four matrices, and the package's pass."""
    x, weights = draw(1, 5, 6), [draw(6, 6, seed=i) for i in range(4)]
    return x, weights, attention.multi_head_attention(x, x, *weights, n_heads=2, causal=True)


@claim("d2-s3-multihead")
def concatenated_and_projected():
    x, (w_q, w_k, w_v, w_o), (y, _) = two_heads()
    heads = (slice(0, 3), slice(3, 6))
    mixed = [plain_attention(x @ w_q[:, head], x @ w_k[:, head], x @ w_v[:, head], PAST) for head in heads]
    return largest(y - np.concatenate(mixed, axis=-1) @ w_o, y - sum(rows @ w_o[head] for rows, head in zip(mixed, heads, strict=True)))


@claim("d2-s3-heads-differ")
def patterns_of_two_heads():
    first, second = two_heads()[2][1].attention.weights[0]
    return {"attention_rows_differ": bool((first[1:] != second[1:])[PAST[1:]].all())}  # row 0 sees itself alone


# ---- section 4 ----
@claim("d2-s4-visible-keys")
def keys_that_the_last_of_three_sees():
    _, _, weights = one_head(draw(3, 2), K, V, causal=True)
    return (weights[-1] > 0).sum()


@claim("d2-s4-mix-formula")
def mixing_formula():
    q, k, v = draw(1, 3), draw(3, 3), draw(3, 2)
    y, _, weights = one_head(q, k, v)
    a_1, a_2, a_3 = weights[0].tolist()
    return largest(y[0] - [a_1 * v[0, i] + a_2 * v[1, i] + a_3 * v[2, i] for i in range(2)], plain_attention(q, k, v) - y)


@claim("d2-s4-highest-weight")
def what_the_highest_weight_brings():
    a = worked_example()["weights"]
    return {
        "highest_weight_is_unique": int((a == a.max()).sum()) == 1,
        "share_of_second_output_from_a_top_weight_key": (a * V[:, 1])[a.argmax()],
        "share_of_second_output_from_the_lowest_weight_key": (a * V[:, 1])[a.argmin()],
    }


@claim("d2-s4-max-subtraction")
def which_maximum_is_subtracted():
    scores, allowed = np.array([1000.0, 0.0, 1.0]), np.array([False, True, True])
    with np.errstate(over="ignore", invalid="ignore"):
        naive = np.exp(scores) / np.exp(scores).sum()
    return {
        "naive_overflows_to_nan": bool(np.isnan(naive).any()),
        "stable_is_finite": bool(np.isfinite(softmax.softmax(scores)[0]).all()),
        "subtracting_a_forbidden_maximum_sums_to_zero": np.exp(scores - scores.max())[allowed].sum(),
        "allowed_maximum_gives": softmax.softmax(scores, allowed)[0],
    }


@claim("d2-s4-temperature-vs-head-dim")
def wider_head_with_the_same_products():
    padding = ((0, 0), (0, 6))
    _, _, wider = one_head(np.pad([Q], padding), np.pad(K, padding), V)
    return {"padding_to_dk8_equals_T2": largest(wider[0] - attend(2)[0][2]) < 1e-12}


# ---- the questions ----
@claim("d2-faq-attention")
def weighted_combination():
    a, y = worked_example()["weights"], worked_example()["output"]
    # where y lies in the triangle of the three values, found without the weights
    place = np.linalg.solve(np.vstack([V.T, np.ones(3)]), [*y, 1])
    return {
        "weights_nonnegative": bool((a >= 0).all()),
        "weights_sum_to_one": abs(a.sum() - 1) < 1e-12,
        "output_inside_value_hull": bool((place >= 0).all()),
    }
