"""One row backwards: softmax and layer norm."""

from typing import Any

from byhand.worked import formatting as f
from byhand.worked.display import Written, aligned
from byhand.worked.matrices import GAP, TERMS_SHOWN, kept
from byhand.worked.vectors import centred, like, mean, named_rows, only_finite, row, simplified


def softmax_backward_row(dy: Any, y: Any, digits: int = 3, names: tuple[str, str, str] = ("ds", "dp", "p")) -> Written:
    """ds_j = p_j (dp_j - Σₖ dp_k p_k), for one row. dy: (n,), the gradient that arrives; y: (n,), the weights. names: of the three."""
    y = row(y, "y")
    dy = like(row(dy, "dy"), y, "dy", 0)
    dot = simplified(sum(dy * y)) if y.dtype == object or dy.dtype == object else float((dy * y).sum())
    ds = y * (dy - dot)
    scale, own = f.scale_of(dy), f.scale_of(ds)
    out, arriving, weight = (f.name_latex(n) for n in names)
    out_text, arriving_text, weight_text = (f.name_text(n) for n in names)
    picked = kept(len(y), TERMS_SHOWN)
    products = [r"\cdots" if k is GAP else rf"{f.factor_latex(dy[k], digits, scale)} \cdot {f.factor_latex(y[k], digits)}" for k in picked]
    plain = ["…" if k is GAP else f"{f.factor_text(dy[k], digits, scale)}·{f.factor_text(y[k], digits)}" for k in picked]
    lines = [rf"\sum_k {arriving}_k\, {weight}_k &= {' + '.join(products)} = {f.latex(dot, digits, scale)}"]
    text = [f"Σ {arriving_text}·{weight_text} = {' + '.join(plain)} = {f.text(dot, digits, scale)}"]
    for k in picked:
        if k is GAP:
            lines.append(r"&\;\;\vdots")
            text.append("⋮")
            continue
        inner = rf"{f.latex(dy[k], digits, scale)} - {f.factor_latex(dot, digits, scale)}"
        lines.append(rf"{out}_{{{k}}} &= {f.factor_latex(y[k], digits)} \left({inner}\right) = {f.latex(ds[k], digits, own)}")
        inner = f"{f.text(dy[k], digits, scale)} - {f.factor_text(dot, digits, scale)}"
        text.append(f"{out_text}[{k}] = {f.factor_text(y[k], digits)}·({inner}) = {f.text(ds[k], digits, own)}")
    return Written("\n".join(text), aligned(lines), value=ds)


def layer_norm_backward_row(dy: Any, x: Any, gamma: Any = None, eps: Any = 1e-5, digits: int = 3) -> Written:
    """dx = (g - mean(g) - x̂ · mean(g · x̂)) / √(σ² + ε) with g = γ · dy, for one row: a vector less its parts along 1 and x̂.

    dy, x, gamma: (n,). γ stands inside both means. Raises ValueError for a constant row under ε = 0.
    """
    x = row(x, "x")
    only_finite(x, "x")
    dy, gamma = like(row(dy, "dy"), x, "dy", 0), like(gamma, x, "gamma", 1)
    _, deviations, _, root = centred(x, eps)
    normalised = deviations / root
    g = gamma * dy
    along_one, along_x = mean(g), mean(g * normalised)
    rest = g - along_one - normalised * along_x
    dx = rest / root
    scale = f.scale_of(g)
    rows = [
        (r"g = \gamma \odot dy", "g = γ·dy", g, None),
        (r"\hat{x}", "x̂", normalised, None),
        (r"\operatorname{mean}(g)", "mean(g)", along_one, scale),
        (r"\operatorname{mean}(g \odot \hat{x})", "mean(g·x̂)", along_x, scale),
        (r"g - \operatorname{mean}(g) - \hat{x}\, \operatorname{mean}(g \odot \hat{x})", "g - mean(g) - x̂·mean(g·x̂)", rest, scale),
        (r"\sqrt{\sigma^2 + \varepsilon}", "√(σ² + ε)", root, None),
        ("dx", "dx", dx, scale / f.decimal_of(root)),
    ]
    return named_rows(rows, digits, value=dx)
