"""Document 2, section 5: the derivative of attention, and differences that check it."""

import ast
import inspect
from types import SimpleNamespace

import numpy as np

from byhand import check
from byhand.numpy import attention, softmax

from . import claim, named, worked_row
from .document_2_attention import PROBE, V, worked_example
from .samples import attention_gradients, by_complex_step, draw, largest, plain_attention, plain_softmax, recorded


# ---- the formulas, for one row ----
def row():
    """A query, five keys and values, and the gradient from above; the package's pass and its gradients."""
    q, k, v, g = draw(1, 4), draw(5, 4), draw(5, 3), draw(1, 3)
    (y, cache), stages = recorded(attention.attention, q[None, None], k[None, None], v[None, None])
    return q, k, v, g, y[0, 0, 0], SimpleNamespace(**vars(stages), cache=cache), attention_gradients(g[None, None], cache)


def scores_and_weights(passed):
    return passed.scores[0, 0, 0], passed.weights[0, 0, 0]


@claim("d2-s5-jacobian")
def softmax_jacobian():
    s, a = scores_and_weights(row()[5])
    printed = a[:, None] * (np.eye(5) - a)
    witness = np.array([by_complex_step(lambda s, i=i: plain_softmax(s)[i], s) for i in range(5)])
    package, _ = softmax.softmax_backward(np.eye(5), softmax.SoftmaxCache(a))
    return largest(printed - witness, package - witness)


@claim("d2-s5-dy-ds")
def slope_of_the_output():
    _, _, v, _, y, passed, _ = row()
    s, a = scores_and_weights(passed)
    printed = a[:, None] * (v - y)
    witness = np.array([by_complex_step(lambda s, i=i: (plain_softmax(s) @ v)[i], s) for i in range(3)]).T
    package = [attention_gradients(unit[None, None, None], passed.cache).scores[0, 0, 0] for unit in np.eye(3)]
    return largest(printed - witness, np.array(package).T - witness)


@claim("d2-s5-dl-ds")
def score_gradient():
    _, _, v, g, y, passed, package = row()
    s, a = scores_and_weights(passed)
    witness = by_complex_step(lambda s: (g[0] * (plain_softmax(s) @ v)).sum(), s)
    return largest(a * ((v - y) @ g[0]) - witness, package.scores[0, 0, 0] - witness)


@claim("d2-s5-dl-dv")
def value_gradient():
    q, k, v, g, _, passed, package = row()
    _, a = scores_and_weights(passed)
    witness = by_complex_step(lambda v: (g * plain_attention(q, k, v)).sum(), v)
    return largest(a[:, None] * g - witness, package.v[0, 0] - witness)


@claim("d2-s5-score-formula")
def score_formula():
    q, k, *_, cache, _ = row()
    by_hand = [sum(q[0, i] * k[j, i] for i in range(4)) / 2 for j in range(5)]
    return largest(scores_and_weights(cache)[0] - by_hand)


@claim("d2-s5-grad-q")
def query_gradient():
    q, k, v, g, _, _, package = row()
    witness = by_complex_step(lambda q: (g * plain_attention(q, k, v)).sum(), q)
    return largest(package.scores[0, 0] @ k / np.sqrt(4) - witness, package.q[0, 0] - witness)


@named
def key_gradient():
    q, k, v, g, _, _, package = row()
    witness = by_complex_step(lambda k: (g * plain_attention(q, k, v)).sum(), k)
    return largest(np.outer(package.scores[0, 0], q) / np.sqrt(4) - witness, package.k[0, 0] - witness)


# ---- what flows where ----
@claim("d2-s5-both-paths")
def routing_and_content():
    package = row()[-1]
    return {f"grad_{name}_nonzero": bool((getattr(package, name) != 0).any()) for name in "qkv"}


def self_attention():
    """From X through all three projections: the package's three paths, and ∂L/∂X by complex step."""
    x, dy, weights = draw(1, 3, 4), draw(1, 3, 4, seed=9), [draw(4, 4, seed=i) for i in range(4)]
    w_q, w_k, w_v, w_o = weights
    _, cache = attention.multi_head_attention(x, x, *weights, n_heads=1)
    witness = by_complex_step(lambda x: (dy * (plain_attention(x @ w_q, x @ w_k, x @ w_v) @ w_o)).sum(), x)
    return attention.multi_head_attention_backward(dy, cache)[0], witness


@claim("d2-s5-three-paths", holds=lambda found: found["sum_of_three_paths_residual_below_1e12"] and found["dropping_value_path_residual"] > 0)
def paths_to_x():
    (via_query, via_key, via_value), witness = self_attention()
    routing = via_query + via_key
    return {
        "sum_of_three_paths_residual_below_1e12": largest(routing + via_value - witness) < 1e-12,
        "dropping_value_path_residual": largest(routing - witness),
    }


# ---- the listing ----
def probe_loss(scores):
    """L = 0.3 y_0 − 0.2 y_1, from the scores on."""
    return softmax.softmax(scores)[0] @ V @ PROBE


@claim("d2-s5-code-stdlib", holds=lambda found: found["imports"] == ["math"])
def imports_of_the_listing():
    tree = ast.parse(inspect.getsource(worked_row))
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
    return {"imports": [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]}


@claim("d2-s5-code-assert-sum")
def first_check_of_the_listing():
    sums = [sum(worked_row.softmax(worked_row.SCORES)), worked_example()["weights"].sum()]
    return {"sum_error_below_1e12": all(abs(total - 1) < 1e-12 for total in sums)}


@claim("d2-s5-code-assert-fd", holds=lambda found: found["max_difference_below_1e7"])
def second_check_of_the_listing():
    passes = {h: worked_row.furthest_apart(h) < 1e-7 for h in (1e-10, 1e-9, 3e-3, 5e-3)}
    return {
        "max_difference_below_1e7": worked_row.furthest_apart(1e-5) < 1e-7,
        "max_difference_below_1e10": worked_row.furthest_apart(1e-5) < 1e-10,
        "fails_at_step_1e-10": not passes[1e-10],
        "fails_at_step_5e-3": not passes[5e-3],
        "passes_at_step_1e-9_and_3e-3": passes[1e-9] and passes[3e-3],
    }


def line(name, values):
    """One line of the listing, from the package's values."""
    return f"{name}: {[round(float(value), 6) for value in values]}"


for i, name in enumerate(("weights", "output", "score gradients")):

    @claim(f"d2-s5-code-line-{name.split()[-1]}", holds=lambda found, i=i, name=name: found == line(name, worked_example()[name.split()[-1]]))
    def line_of_the_listing(i=i):
        return worked_row.lines()[i]


# ---- finite differences ----
SCORES = np.array(worked_row.SCORES)


@named
def errors(h):
    """How far each central difference is from the package's gradient."""
    return check.numerical_gradient(probe_loss, SCORES, h) - worked_example()["gradients"]


@claim("d2-s5-fd-local", holds=lambda found: found["wrong_model_passes_the_1e-7_check_here"] and found["its_loss_error_3_units_away"] > 0)
def wrong_model_that_is_right_here():
    """The tangent of the loss at the worked scores: the same slopes there, and another loss away from there."""

    def tangent(scores):
        return probe_loss(SCORES) + worked_example()["gradients"] @ (scores - SCORES)

    away = SCORES + [3, 0, 0]
    return {
        "wrong_model_passes_the_1e-7_check_here": largest(check.numerical_gradient(tangent, SCORES, 1e-5) - worked_example()["gradients"]) < 1e-7,
        "its_loss_error_3_units_away": abs(tangent(away) - probe_loss(away)),
    }


@claim("d2-s5-fd-extreme")
def saturated_scores():
    scores = np.array([40.0, 0.0, 0.0])
    a, _ = softmax.softmax(scores)
    true, _ = softmax.softmax_backward(V @ PROBE, softmax.SoftmaxCache(a))
    return {
        "largest_true_gradient_below_1e-16": largest(true) < 1e-16,
        "an_all_zero_gradient_passes_the_1e-7_check": largest(check.numerical_gradient(probe_loss, scores, 1e-5) - np.zeros(3)) < 1e-7,
    }


@claim("d2-s5-fd-large-step", holds=lambda found: found["central_error_on_quadratic_h10"] > 0)
def large_step():
    """The curvature, f″, is what the claim names; central differences cancel it, and what is left is f‴."""

    def quadratic(x):
        return 3 * x[0] ** 2 + 2 * x[0]

    at, slope, h = np.array([1.0]), 8.0, 10.0
    return {
        "central_error_on_quadratic_h10": abs(check.central_difference(quadratic, at, 0, h) - slope),
        "forward_error_on_quadratic_h10": (quadratic(at + h) - quadratic(at)) / h - slope,
        "central_error_ratio_h_0.1_to_0.01": largest(errors(0.1)) / largest(errors(0.01)),
    }
