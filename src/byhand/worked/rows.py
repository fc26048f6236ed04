"""One row at a time: softmax, layer norm, the loss."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.display import Written, aligned, array, pad, text_table
from byhand.worked.matrices import GAP, SHOWN, TERMS_SHOWN, kept
from byhand.worked.vectors import any_exact, centred, exp, like, log, only_finite, row, shown, simplified

LARGEST_SCORE = 30.0  # beyond it e^s is written with the row's maximum taken off, as the package computes it


def softmax_row(scores: Any, mask: Any = None, labels: Sequence | None = None, digits: int = 3, limit: int | None = SHOWN) -> Written:
    """p_j = e^{s_j} / Σₖ e^{s_k}, one line for each score, then the sums.

    scores: (n,). mask: (n,) of bool, True where the row may attend; elsewhere the score counts as -∞ and the weight is 0. A row
    that may attend nowhere gets zeros. labels: what each score belongs to, such as tokens.
    """
    scores = row(scores, "scores")
    allowed = _mask(mask, len(scores)) & np.array([f.is_exact(s) or s != -math.inf for s in scores])
    only_finite(scores[allowed], "scores")
    labels = _row_labels("labels", labels, len(scores))
    weights, exponentials, total, shift = _softmax(scores, allowed)
    scale, picked = f.scale_of(scores), kept(len(scores), limit)
    top = "" if shift is None else f.latex(shift, digits, scale)
    head, head_text = ["s", "e^{s}", "p"], ["", "s", "e^s", "p"]
    if shift is not None:
        head, head_text = ["s", rf"e^{{s - {top}}}", "p"], ["", "s", "e^(s - max)", "p"]
    table, plain = [["", *head]], [head_text]
    for k in picked:
        if k is GAP:
            table.append([r"\vdots"] * 4)
            plain.append(["⋮"] * 4)
            continue
        table.append([f.label_latex(labels[k]), *_softmax_cells(k, scores, allowed, weights, exponentials, total, shift, digits, scale)])
        plain.append([str(labels[k]), *_softmax_plain(k, scores, allowed, weights, exponentials, total, shift, digits, scale)])
    whole = sum(weights) if not any_exact(weights) else simplified(sum(weights))
    table.append([rf"\text{{sum{_of_n(picked, len(scores))}}}", "", f.with_decimal(total, digits), f.latex(whole, digits)])
    plain.append([f"sum{_of_n(picked, len(scores))}", "", f.with_decimal(total, digits, "text"), f.text(whole, digits)])
    return Written(text_table(plain), array(table, "r|r|r|r", rules=(1, len(table) - 1)), value=weights)


def layer_norm_row(x: Any, gamma: Any = None, beta: Any = None, eps: Any = 1e-5, digits: int = 3, limit: int | None = TERMS_SHOWN) -> Written:
    """y = γ · (x - μ) / √(σ² + ε) + β for one row: mean, deviations, variance (divided by n), root, normalised, scaled.

    x, gamma, beta: (n,); γ = 1 and β = 0 unless given. eps ≥ 0. Raises ValueError for a constant row under ε = 0.
    """
    x = row(x, "x")
    only_finite(x, "x")
    gamma, beta = like(gamma, x, "gamma", 1), like(beta, x, "beta", 0)
    mu, deviations, variance, root = centred(x, eps)
    normalised = deviations / root
    y = gamma * normalised + beta
    digits, scale = f.checked_digits(digits), f.scale_of(x)

    def lines(form):
        def number(value, own=None):
            return f.with_decimal(value, digits, form) if f.is_exact(value) else shown(value, digits, own, form)

        def vector(values):
            return shown(values, digits, None, form, limit)

        def mean_of(values, power, own):
            return average(values, power, digits, own, form, limit)

        inside = (number(variance) if not f.is_exact(variance) else shown(variance, digits, None, form)), shown(eps, digits, 0.0, form)
        return {
            "mean": f"{mean_of(x, '', scale)} = {number(mu, scale)}",
            "deviations": vector(deviations),
            "variance": f"{mean_of(deviations, '^2' if form == 'latex' else '²', f.scale_of(deviations))} = {number(variance)}",
            "root": (rf"\sqrt{{{inside[0]} + {inside[1]}}}" if form == "latex" else f"√({inside[0]} + {inside[1]})") + f" = {number(root)}",
            "normalised": vector(normalised),
            "scaled": f"{vector(gamma)} " + (r"\odot \hat{x}" if form == "latex" else "· x̂") + f" + {vector(beta)}",
            "y": vector(y),
        }

    latex, text = lines("latex"), lines("text")
    heads = {
        "mean": (r"\mu", "mean"),
        "deviations": (r"x - \mu", "x - mean"),
        "variance": (r"\sigma^2", "variance"),
        "root": (r"\sqrt{\sigma^2 + \varepsilon}", "root"),
        "normalised": (r"\hat{x} = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}", "x̂"),
        "scaled": (r"y = \gamma \odot \hat{x} + \beta", "y"),
        "y": ("", ""),
    }
    text["normalised"] = "(x - mean) / root = " + text["normalised"]
    return Written(
        "\n".join(f"{pad(heads[key][1], 9)} = {line}" for key, line in text.items()),
        aligned([f"{heads[key][0]} &= {line}" for key, line in latex.items()]),
        value=y,
    )


def average(values, power, digits, scale, form, limit) -> str:
    """(1/n)(x₁ + x₂ + ...), each term to a power."""
    write, dots = (f.factor_latex, r"\cdots") if form == "latex" else (f.factor_text, "…")
    total = " + ".join(dots if k is GAP else write(values[k], digits, scale) + power for k in kept(len(values), limit))
    return rf"\tfrac{{1}}{{{len(values)}}}\left({total}\right)" if form == "latex" else f"({total}) / {len(values)}"


def loss_terms(
    scores: Any,
    target: Any,
    smoothing: Any = 0.0,
    names: Sequence | None = None,
    digits: int = 3,
    given: str = "logits",
    limit: int | None = SHOWN,
) -> Written:
    """L = -Σ_c q_c log p_c with q = (1 - ε) · onehot(target) + ε / V, one line for each class, then the sum.

    scores: (V,) and target an integer; or (T, V) and (T,): then each position's loss, the last and the mean.
    given: "logits" (p is their softmax) or "probabilities". smoothing: ε in [0, 1), spread over all V classes, the right one included.
    names: the classes' names. IndexError for a target outside the vocabulary.
    """
    values = f.as_array(scores, "scores")
    if given not in ("logits", "probabilities"):
        raise ValueError(f'given was {given!r}; it must be "logits" or "probabilities"')
    if not 0 <= f.decimal_of(smoothing) < 1:
        raise ValueError(f"smoothing was {smoothing}; it must lie in [0, 1)")
    if values.ndim == 2:
        return _loss_positions(values, target, smoothing, names, digits, given)
    values = row(values, "scores")
    only_finite(values, "scores")
    target = _target(target, len(values))
    names = _row_labels("names", names, len(values))
    p, log_p = _log_probabilities(values, given)
    q = _smoothed(target, smoothing, len(values))
    terms = [-(q_c * l) if q_c != 0 else 0 * q_c for q_c, l in zip(q, log_p)]
    total = simplified(sum(terms)) if any_exact(terms) else float(sum(terms))
    columns = [("p", p), (r"\log p", log_p), ("q", q), (r"-q \log p", terms)]
    plain_heads = ["", "p", "log p", "q", "-q log p"]
    if given == "logits":
        columns, plain_heads = [("z", values), *columns], ["", "z", *plain_heads[1:]]
    table, plain = [["", *(head for head, _ in columns)]], [plain_heads]
    for k in kept(len(values), limit):
        if k is GAP:
            table.append([r"\vdots"] * (len(columns) + 1))
            plain.append(["⋮"] * (len(columns) + 1))
            continue
        mark, mark_text = (r" \;\leftarrow", " ←") if k == target else ("", "")
        table.append([f.label_latex(names[k]) + mark, *(f.latex(c[k], digits) for _, c in columns)])
        plain.append([str(names[k]) + mark_text, *(f.text(c[k], digits) for _, c in columns)])
    sums = ["" for _ in columns]
    picked = kept(len(values), limit)
    label = f"sum{_of_n(picked, len(values))}"
    table.append([rf"\text{{{label}}}", *sums[:-1], f.with_decimal(total, digits)])
    plain.append([label, *sums[:-1], f.with_decimal(total, digits, "text")])
    return Written(text_table(plain), array(table, "r|" + "r" * len(columns), rules=(1, len(table) - 1)), value=total)


def _loss_positions(values, targets, smoothing, names, digits, given) -> Written:
    """Each position's loss, then the last and the mean."""
    targets = np.asarray(targets)
    if targets.shape != values.shape[:1]:
        raise ValueError(f"target had shape {targets.shape}; it must have shape {values.shape[:1]}, one class for each position")
    each = [loss_terms(row, t, smoothing, names, digits, given).value for row, t in zip(values, targets)]
    names = _row_labels("names", names, values.shape[1])
    n = len(each)
    average = simplified(sum(each) / n) if any_exact(each) else sum(each) / n
    lines, text = [], []
    for k in kept(n, SHOWN):
        if k is GAP:
            lines.append(r"&\;\;\vdots")
            text.append("⋮")
            continue
        lines.append(rf"L_{{{k}}} \;(\text{{target }} {f.label_latex(names[targets[k]])}) &= {f.with_decimal(each[k], digits)}")
        text.append(f"L[{k}] (target {names[targets[k]]}) = {f.with_decimal(each[k], digits, 'text')}")
    picked = kept(n, TERMS_SHOWN)
    total = " + ".join(r"\cdots" if k is GAP else f.factor_latex(each[k], digits) for k in picked)
    plain = " + ".join("…" if k is GAP else f.factor_text(each[k], digits) for k in picked)
    lines += [rf"\text{{last}} &= {f.latex(each[-1], digits)}", rf"\text{{mean}} &= \tfrac{{1}}{{{n}}}\left({total}\right) = {f.with_decimal(average, digits)}"]
    text += [f"last = {f.text(each[-1], digits)}", f"mean = ({plain}) / {n} = {f.with_decimal(average, digits, 'text')}"]
    return Written("\n".join(text), aligned(lines), value=np.array(each))


# --- the arithmetic, for floats and for exact numbers alike


def _softmax(scores, allowed):
    exact = any_exact(scores)
    shift = None
    if not exact and allowed.any() and np.abs(scores[allowed].astype(float)).max() > LARGEST_SCORE:
        shift = float(scores[allowed].astype(float).max())
    exponentials = [0 if not ok else exp(s - shift if shift is not None else s) for s, ok in zip(scores, allowed)]
    total = sum(exponentials)
    weights = [e / total if ok else 0 for e, ok in zip(exponentials, allowed)]
    if not exact:
        return np.array(weights, dtype=float), np.array(exponentials, dtype=float), float(total), shift
    return np.array(weights, dtype=object), exponentials, total, shift


def _softmax_cells(k, scores, allowed, weights, exponentials, total, shift, digits, scale) -> list[str]:
    if not allowed[k]:
        return [r"-\infty", "0", "0"]
    s = f.latex(scores[k], digits, scale)
    power = s if shift is None else f"{s} - {f.factor_latex(shift, digits, scale)}"
    e = f.latex(f.decimal_of(exponentials[k]), digits, 0.0)
    approx = r" \approx " if f.is_exact(exponentials[k]) and not exponentials[k].is_Integer else " = "
    if f.is_exact(weights[k]):
        quotient = rf"\frac{{{f.latex(exponentials[k])}}}{{{f.latex(total)}}} \approx {f.latex(f.decimal_of(weights[k]), digits, 0.0)}"
    else:
        quotient = rf"{e} / {f.latex(total, digits, 0.0)} = {f.latex(weights[k], digits, 0.0)}"
    return [s, f"e^{{{power}}}{approx}{e}", quotient]


def _softmax_plain(k, scores, allowed, weights, exponentials, total, shift, digits, scale) -> list[str]:
    if not allowed[k]:
        return ["-∞", "0", "0"]
    e = f.text(f.decimal_of(exponentials[k]), digits, 0.0)
    total = f.text(f.decimal_of(total), digits, 0.0)
    return [f.text(scores[k], digits, scale), e, f"{e} / {total} = {f.text(f.decimal_of(weights[k]), digits, 0.0)}"]


def _log_probabilities(values, given):
    if given == "probabilities":
        if min(f.decimal_of(v) for v in values) <= 0 or abs(f.decimal_of(sum(values)) - 1) > 1e-6:
            raise ValueError('scores held probabilities that are not positive or do not sum to 1; pass logits with given="logits"')
        return values, [log(v) for v in values]
    if any_exact(values):
        exponentials = [exp(v) for v in values]
        total = sum(exponentials)
        return [e / total for e in exponentials], [v - log(total) for v in values]
    values = values.astype(float)
    log_p = values - values.max() - math.log(np.exp(values - values.max()).sum())
    return np.exp(log_p), log_p


def _smoothed(target, smoothing, classes):
    return [(1 - smoothing) * int(c == target) + smoothing / classes for c in range(classes)]


# --- what may come in


def _mask(mask, n) -> np.ndarray:
    if mask is None:
        return np.ones(n, dtype=bool)
    mask = f.as_array(mask, "mask")
    if mask.dtype != bool or mask.shape != (n,):
        raise ValueError(f"mask had shape {mask.shape} and type {mask.dtype}; it must have shape ({n},) and hold bools, True where the row may attend")
    return mask


def _row_labels(argument, labels, n) -> list:
    if labels is None:
        return list(range(n))
    labels = list(labels)
    if len(labels) != n:
        raise ValueError(f"{argument} had {len(labels)} entries; there must be {n}")
    return labels


def _target(target, classes) -> int:
    if isinstance(target, (bool, np.bool_)) or not isinstance(target, (int, np.integer)):
        raise ValueError(f"target was {target!r}; it must be one whole number")
    if not 0 <= target < classes:
        raise IndexError(f"target was {int(target)}; it must lie from 0 to {classes - 1}")
    return int(target)


def _of_n(picked, n) -> str:
    return f" of all {n}" if GAP in picked else ""
