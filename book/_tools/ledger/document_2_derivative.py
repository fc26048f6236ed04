"""Document 2, section 5: the derivative of attention, and differences that check it."""

import ast
import inspect

import numpy as np

from byhand import check
from byhand.numpy import attention, softmax

from . import claim, named, worked_row
from .document_1_backward import attention_pass
from .document_2_attention import PROBE, V, worked_example
from .samples import attention_gradients, by_complex_step, draw, largest, plain_attention, plain_softmax


# ---- the formulas, for one row (its gradients are document_1_backward's) ----
def one_row():
    """The package's pass for one query, its scores and its weights."""
    o = attention_pass(heads=1, t_q=1)
    return o, o.scores[0, 0, 0], o.weights[0, 0, 0]


@claim("d2-s5-jacobian")
def softmax_jacobian():
    _, s, a = one_row()
    printed = a[:, None] * (np.eye(5) - a)
    witness = np.array([by_complex_step(lambda s, i=i: plain_softmax(s)[i], s) for i in range(5)])
    package, _ = softmax.softmax_backward(np.eye(5), softmax.SoftmaxCache(np.tile(a, (5, 1))))
    return largest(printed - witness, package - witness)


@claim("d2-s5-dy-ds")
def slope_of_the_output():
    o, s, a = one_row()
    v = o.v[0, 0]
    witness = np.array([by_complex_step(lambda s, i=i: (plain_softmax(s) @ v)[i], s) for i in range(6)]).T
    package = [attention_gradients(unit[None, None, None], o.cache).scores[0, 0, 0] for unit in np.eye(6)]
    return largest(a[:, None] * (v - o.y[0, 0, 0]) - witness, np.array(package).T - witness)


@claim("d2-s5-score-formula")
def score_formula():
    o, s, _ = one_row()
    return largest(s - [sum(o.q[0, 0, 0, i] * o.k[0, 0, j, i] for i in range(4)) / 2 for j in range(5)])


# ---- what flows where ----
@claim("d2-s5-both-paths")
def routing_and_content():
    return {f"grad_{name}_nonzero": bool((getattr(one_row()[0].gradients, name) != 0).any()) for name in "qkv"}


def self_attention():
    """From X through all three projections: the package's three paths, and ∂L/∂X by complex step."""
    x, dy, weights = draw(1, 3, 4), draw(1, 3, 4, seed=9), [draw(4, 4, seed=i) for i in range(4)]
    w_q, w_k, w_v, w_o = weights
    _, cache = attention.multi_head_attention(x, x, *weights, n_heads=1)
    witness = by_complex_step(lambda x: (dy * (plain_attention(x @ w_q, x @ w_k, x @ w_v) @ w_o)).sum(), x)
    return attention.multi_head_attention_backward(dy, cache)[0], witness


@claim("d2-s5-three-paths")
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


@claim("d2-s5-code-stdlib")
def imports_of_the_listing():
    tree = ast.parse(inspect.getsource(worked_row))
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
    return {"imports": [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]}


@claim("d2-s5-code-assert-sum")
def first_check_of_the_listing():
    sums = [sum(worked_row.softmax(worked_row.SCORES)), worked_example()["weights"].sum()]
    return {"sum_error_below_1e12": all(abs(total - 1) < 1e-12 for total in sums)}


@claim("d2-s5-code-assert-fd")
def second_check_of_the_listing():
    passes = {h: worked_row.furthest_apart(h) < 1e-7 for h in (1e-10, 1e-9, 3e-3, 5e-3)}
    return {
        "max_difference_below_1e7": worked_row.furthest_apart(1e-5) < 1e-7,
        "max_difference_below_1e10": worked_row.furthest_apart(1e-5) < 1e-10,
        "fails_at_step_1e-10": not passes[1e-10],
        "fails_at_step_5e-3": not passes[5e-3],
        "passes_at_step_1e-9_and_3e-3": passes[1e-9] and passes[3e-3],
    }


for i, name in enumerate(("weights", "output", "gradients")):
    claim(f"d2-s5-code-line-{name}")(lambda i=i: worked_row.lines()[i])


@named
def line(name, values):
    """One line of the listing, from the package's values."""
    return f"{name}: {[round(float(value), 6) for value in values]}"


# ---- finite differences ----
SCORES = np.array(worked_row.SCORES)


@named
def errors(h):
    """How far each central difference is from the package's gradient."""
    return check.numerical_gradient(probe_loss, SCORES, h) - worked_example()["gradients"]


@claim("d2-s5-fd-local")
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


@claim("d2-s5-fd-large-step")
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
