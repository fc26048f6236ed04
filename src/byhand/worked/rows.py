"""One row at a time, written out from what the package computed: softmax and the norms forwards and backwards, and the loss."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from byhand.numpy.loss import cross_entropy, smoothed_targets
from byhand.numpy.norm import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from byhand.numpy.softmax import SoftmaxCache, softmax, softmax_backward
from byhand.worked import formatting as f
from byhand.worked.display import Written, equations, ruled
from byhand.worked.formatting import GAP, SHOWN, TERMS_SHOWN, TEXT, kept

LARGEST_SCORE = 30.0  # beyond it e^s is written with the row's maximum taken off, as the package computes it


def softmax_row(scores: Any, mask: Any = None, labels: Sequence | None = None, digits: int = 3, limit: int | None = SHOWN) -> Written:
    """p_j = e^{s_j} / Σₖ e^{s_k}, one line for each score, then the sums.

    scores: (n,). mask: (n,) of bool, True where the row may attend; elsewhere the score counts as -∞ and the weight is 0. A row
    that may attend nowhere gets zeros. labels: what each score belongs to, such as tokens.
    """
    scores = row(scores, "scores")
    allowed = _mask(mask, len(scores)) & (scores != -np.inf)
    only_finite(scores[allowed], "scores")
    labels, scale = f.checked_labels("labels", range(len(scores)) if labels is None else labels, len(scores)), f.scale_of(scores)
    weights, _ = softmax(scores, allowed)
    large = allowed.any() and np.abs(scores[allowed]).max() > LARGEST_SCORE
    peak = scores[allowed].max() if large else 0.0
    exponentials = np.exp(np.where(allowed, scores - peak, -np.inf))
    total = float(exponentials.sum())
    picked = kept(len(scores), limit)

    def line(k, form):
        if not allowed[k]:
            return [form.label(labels[k]), form(r"-\infty", "-∞"), "0", "0"]
        s, e = form.number(scores[k], digits, scale), form.number(exponentials[k], digits, 0.0)
        power = f"{s} - {form.factor(peak, digits, scale)}" if large else s
        quotient = f"{e} / {form.number(total, digits, 0.0)} = {form.number(weights[k], digits, 0.0)}"
        return [form.label(labels[k]), s, form(f"e^{{{power}}} = {e}", e), quotient]

    def lines(form):
        shifted = form(rf"e^{{s - {f.latex(peak, digits, scale)}}}", "e^(s - max)") if large else form("e^{s}", "e^s")
        sums = [_sum_label(form, picked, len(scores)), "", form.number(total, digits), form.number(weights.sum(), digits)]
        return [["", "s", shifted, "p"], *(GAP if k is GAP else line(k, form) for k in picked), sums]

    return ruled(lines, "r|r|r|r", weights)


def softmax_backward_row(dy: Any, y: Any, digits: int = 3, names: tuple[str, str, str] = ("ds", "dp", "p")) -> Written:
    """ds_j = p_j (dp_j - Σₖ dp_k p_k), for one row. dy: (n,), the gradient that arrives; y: (n,), the weights. names: of the three."""
    y = row(y, "y")
    dy = like(dy, y, "dy", 0)
    ds, _ = softmax_backward(dy, SoftmaxCache(y))
    dot, scale, own = float((dy * y).sum()), f.scale_of(dy), f.scale_of(ds)

    def lines(form):
        out, arriving, weight = map(form.name, names)
        dot_sign = form(r" \cdot ", "·")
        products = form.joined(lambda k: form.factor(dy[k], digits, scale) + dot_sign + form.factor(y[k], digits), len(y))
        yield form(rf"\sum_k {arriving}_k\, {weight}_k", f"Σ {arriving}·{weight}"), f"{products} = {form.number(dot, digits, scale)}"
        for k in kept(len(y), TERMS_SHOWN):
            if k is GAP:
                yield GAP
                continue
            inner = f"{form.number(dy[k], digits, scale)} - {form.factor(dot, digits, scale)}"
            product = form.factor(y[k], digits) + form(rf" \left({inner}\right)", f"·({inner})")
            yield form(f"{out}_{{{k}}}", f"{out}[{k}]"), f"{product} = {form.number(ds[k], digits, own)}"

    return equations(lines, ds)


def layer_norm_row(x: Any, gamma: Any = None, beta: Any = None, eps: float = 1e-5, digits: int = 3, limit: int | None = TERMS_SHOWN) -> Written:
    """y = γ · (x - μ) / √(σ² + ε) + β for one row: mean, deviations, variance (divided by n), root, normalised, scaled.

    x, gamma, beta: (n,); γ = 1 and β = 0 unless given. eps ≥ 0. Raises ValueError for a constant row under ε = 0.
    """
    x, gamma, beta = norm_inputs(x, gamma, beta)
    hat, y = (layer_norm(x, *gain, eps)[0] for gain in ((np.ones_like(x), np.zeros_like(x)), (gamma, beta)))
    mu, variance = x.mean(), x.var()
    deviations = np.where(np.abs(x - mu) <= f.LEFTOVER * f.scale_of(x), 0, x - mu)  # a constant row has only leftovers
    digits, scale = f.checked_digits(digits), f.scale_of(x)
    finest = max(1.0, scale / math.sqrt(variance + eps))  # what rounding left of the mean was divided by the root

    def lines(form):
        normalised, last = (form.row(values, digits, limit, finest * f.scale_of(values)) for values in (hat, y))
        scaled = form.row(gamma, digits, limit) + form(r" \odot \hat{x}", " · x̂") + f" + {form.row(beta, digits, limit)}"
        return [
            (form(r"\mu", "mean"), f"{average(x, '', digits, scale, form, limit)} = {form.number(mu, digits, scale)}"),
            (form(r"x - \mu", "x - mean"), form.row(deviations, digits, limit)),
            (form(r"\sigma^2", "variance"), _mean_square(deviations, variance, digits, form, limit)),
            (form(r"\sqrt{\sigma^2 + \varepsilon}", "root"), _root(variance, eps, digits, form)),
            (form(r"\hat{x} = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}", "x̂"), form("", "(x - mean) / root = ") + normalised),
            (form(r"y = \gamma \odot \hat{x} + \beta", "y"), scaled),
            ("", last),
        ]

    return equations(lines, y, width=9)


def layer_norm_backward_row(dy: Any, x: Any, gamma: Any = None, eps: float = 1e-5, digits: int = 3) -> Written:
    """dx = (g - mean(g) - x̂ · mean(g · x̂)) / √(σ² + ε) with g = γ · dy, for one row: a vector less its parts along 1 and x̂.

    dy, x, gamma: (n,). γ stands inside both means. Raises ValueError for a constant row under ε = 0.
    """
    x, gamma, beta = norm_inputs(x, gamma)
    dy = like(dy, x, "dy", 0)
    dx, _ = layer_norm_backward(dy, layer_norm(x, gamma, beta, eps)[1])
    hat, _ = layer_norm(x, np.ones_like(x), np.zeros_like(x), eps)
    root = (r"\sqrt{\sigma^2 + \varepsilon}", "√(σ² + ε)", math.sqrt(x.var() + eps))
    return _norm_backward(gamma * dy, hat, root, dx, True, digits)


def rms_norm_row(x: Any, gamma: Any = None, eps: float = 1e-5, digits: int = 3, limit: int | None = TERMS_SHOWN) -> Written:
    """y = γ · x / √(mean(x²) + ε) for one row: mean square, root, normalised, scaled.

    x, gamma: (n,); γ = 1 unless given. eps ≥ 0. Raises ValueError for a row of zeros under ε = 0.
    """
    x, gamma, _ = norm_inputs(x, gamma)
    hat, y = (rms_norm(x, gain, eps)[0] for gain in (np.ones_like(x), gamma))
    square = (x * x).mean()
    digits = f.checked_digits(digits)

    def lines(form):
        normalised, last = form.row(hat, digits, limit), form.row(y, digits, limit)
        return [
            (form(r"\operatorname{mean}(x^2)", "mean(x²)"), _mean_square(x, square, digits, form, limit)),
            (form(r"\sqrt{\operatorname{mean}(x^2) + \varepsilon}", "root"), _root(square, eps, digits, form)),
            (form(r"\hat{x} = \frac{x}{\sqrt{\operatorname{mean}(x^2) + \varepsilon}}", "x̂"), form("", "x / root = ") + normalised),
            (form(r"y = \gamma \odot \hat{x}", "y"), form.row(gamma, digits, limit) + form(r" \odot \hat{x}", " · x̂") + f" = {last}"),
        ]

    return equations(lines, y, width=8)


def rms_norm_backward_row(dy: Any, x: Any, gamma: Any = None, eps: float = 1e-5, digits: int = 3) -> Written:
    """dx = (g - x̂ · mean(g · x̂)) / √(mean(x²) + ε) with g = γ · dy, for one row: a vector less its part along x̂.

    dy, x, gamma: (n,). Raises ValueError for a row of zeros under ε = 0.
    """
    x, gamma, _ = norm_inputs(x, gamma)
    dy = like(dy, x, "dy", 0)
    dx, _ = rms_norm_backward(dy, rms_norm(x, gamma, eps)[1])
    hat, _ = rms_norm(x, np.ones_like(x), eps)
    root = (r"\sqrt{\operatorname{mean}(x^2) + \varepsilon}", "√(mean(x²) + ε)", math.sqrt((x * x).mean() + eps))
    return _norm_backward(gamma * dy, hat, root, dx, False, digits)


def loss_terms(scores: Any, target: Any, smoothing: float = 0.0, names: Sequence | None = None, digits: int = 3, limit: int | None = SHOWN) -> Written:
    """L = -Σ_c q_c log p_c with q = (1 - ε) · onehot(target) + ε / V, one line for each class, then the sum.

    scores: (V,), the logits, and target an integer; or (T, V) and (T,): then each position's loss, the last and the mean.
    smoothing: ε in [0, 1), spread over all V classes, the right one included. names: the classes' names.
    IndexError for a target outside the vocabulary.
    """
    values = f.as_floats(scores, "scores")
    if values.ndim == 2:
        return _loss_positions(values, np.asarray(target), smoothing, names, digits)
    values = row(values, "scores")
    only_finite(values, "scores")
    names = f.checked_labels("names", range(len(values)) if names is None else names, len(values))
    total = _loss_of(values, target, smoothing)
    q = smoothed_targets(np.array(target), len(values), smoothing)
    p, _ = softmax(values)
    log_p = values - values.max() - math.log(np.exp(values - values.max()).sum())
    columns = [values, p, log_p, q, -q * log_p]
    picked = kept(len(values), limit)

    def lines(form):
        head = ["", "z", "p", form(r"\log p", "log p"), "q", form(r"-q \log p", "-q log p")]
        mark = form(r" \;\leftarrow", " ←")
        rows = [GAP if k is GAP else [form.label(names[k]) + (mark if k == target else ""), *(form.number(c[k], digits) for c in columns)] for k in picked]
        return [head, *rows, [_sum_label(form, picked, len(values)), "", "", "", "", form.number(total, digits)]]

    return ruled(lines, "r|rrrrr", total)


def _loss_positions(values, targets, smoothing, names, digits) -> Written:
    """Each position's loss, then the last and the mean."""
    if targets.shape != values.shape[:1]:
        raise ValueError(f"target had shape {targets.shape}; it must have shape {values.shape[:1]}, one class for each position")
    each = np.array([_loss_of(z, target, smoothing) for z, target in zip(values, targets)])
    names = f.checked_labels("names", range(values.shape[1]) if names is None else names, values.shape[1])

    def lines(form):
        for k in kept(len(each), SHOWN):
            name = GAP if k is GAP else form.label(names[targets[k]])
            yield GAP if k is GAP else (form(rf"L_{{{k}}} \;(\text{{target }} {name})", f"L[{k}] (target {name})"), form.number(each[k], digits))
        total = form.joined(lambda k: form.factor(each[k], digits), len(each))
        yield form(r"\text{last}", "last"), form.number(each[-1], digits)
        mean = form(rf"\tfrac{{1}}{{{len(each)}}}\left({total}\right)", f"({total}) / {len(each)}")
        yield form(r"\text{mean}", "mean"), f"{mean} = {form.number(each.mean(), digits)}"

    return equations(lines, each)


def _loss_of(scores, target, smoothing) -> float:
    if isinstance(target, (bool, np.bool_)) or not isinstance(target, (int, np.integer)):
        raise ValueError(f"target was {target!r}; it must be one whole number")
    return float(cross_entropy(scores[None, None], np.array([[target]]), smoothing)[0])


# ---- what the norms share


def average(values, power, digits, scale, form, limit) -> str:
    """(1/n)(x₁ + x₂ + ...), each term to a power."""
    total = form.joined(lambda k: form.factor(values[k], digits, scale) + power, len(values), limit)
    return form(rf"\tfrac{{1}}{{{len(values)}}}\left({total}\right)", f"({total}) / {len(values)}")


def _mean_square(values, square, digits, form, limit) -> str:
    return f"{average(values, form('^2', '²'), digits, f.scale_of(values), form, limit)} = {form.number(square, digits)}"


def _root(square, eps, digits, form) -> str:
    inside = f"{form.number(square, digits)} + {form.number(eps, digits, 0.0)}"
    return form(rf"\sqrt{{{inside}}}", f"√({inside})") + f" = {form.number(math.sqrt(square + eps), digits)}"


def _norm_backward(g, hat, root, dx, along_one: bool, digits) -> Written:
    """g less its part along x̂ (and along 1, where the rows were centred), divided by the root: (LaTeX name, plain name, value)."""
    along_x, one = (g * hat).mean().item(), g.mean().item() if along_one else 0.0
    rest, scale = g - one - hat * along_x, f.scale_of(g)

    def lines(form):
        mean, product = form(r"\operatorname{mean}", "mean"), form(r"(g \odot \hat{x})", "(g·x̂)")
        left = "g" + f" - {mean}(g)" * along_one + form(r" - \hat{x}\, ", " - x̂·") + mean + product
        rows = [
            (form(r"g = \gamma \odot dy", "g = γ·dy"), form.row(g, digits)),
            (form(r"\hat{x}", "x̂"), form.row(hat, digits)),
            (f"{mean}(g)", form.number(one, digits, scale)),
            (mean + product, form.number(along_x, digits, scale)),
            (left, form.row(rest, digits, scale=scale)),
            (form(*root[:2]), form.number(root[2], digits)),
            ("dx", form.row(dx, digits, scale=scale / root[2])),
        ]
        return rows if along_one else rows[:2] + rows[3:]

    return equations(lines, dx, width=max(len(name) for name, _ in lines(TEXT)))


# ---- what may come in


def row(values, name) -> np.ndarray:
    values = f.as_array(values, name)
    values = values if values.dtype.kind == "f" else f.as_floats(values, name)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} had shape {values.shape}; it must be one row with at least one entry (pick one: scores[0, 0, i])")
    return values


def like(values, x, name, default) -> np.ndarray:
    """A row as long as x and of its dtype, filled with the default where none is given."""
    values = np.full(len(x), default) if values is None else row(values, name)
    if len(values) != len(x):
        raise ValueError(f"{name} had {len(values)} entries; it must have {len(x)}, one for each entry of x")
    return values.astype(x.dtype)


def only_finite(values, name):
    if not np.isfinite(values).all():
        raise ValueError(f"{name} held a number that is not finite; it must be finite (use the mask for -∞)")


def norm_inputs(x, gamma, beta=None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = row(x, "x")
    only_finite(x, "x")
    return x, like(gamma, x, "gamma", 1), like(beta, x, "beta", 0)


def _mask(mask, n) -> np.ndarray:
    if mask is None:
        return np.ones(n, dtype=bool)
    mask = f.as_array(mask, "mask")
    if mask.dtype != bool or mask.shape != (n,):
        raise ValueError(f"mask had shape {mask.shape} and type {mask.dtype}; it must have shape ({n},) and hold bools, True where the row may attend")
    return mask


def _sum_label(form, picked, n) -> str:
    label = "sum" + (f" of all {n}" if GAP in picked else "")
    return form(rf"\text{{{label}}}", label)
