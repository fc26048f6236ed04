"""Pictures of the model and of numbers: the architecture, vectors as bars, lines, layer norm's projections."""

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np

from byhand.numpy.norm import layer_norm
from byhand.worked import formatting as f
from byhand.worked.diagram import COLORS
from byhand.worked.plotting import MUTED, Picture, arrow, axis_labels, book_style, box, frame, picture
from byhand.worked.rows import like, norm_inputs

WIDTH = 3.0  # of a box in the architecture
_KINDS = {  # what a stage is called in the picture, and the kind of its box
    "embedded": ("embedding × √d", "rows"), "positions": ("positions", "rows"), "input": ("rows + positions", "rows"),
    "self_attention": ("self-attention", "mix"), "cross_attention": ("cross-attention", "other"), "attention": ("attention", "mix"),
    "residual": ("add", "add"), "norm": ("norm", "norm"), "feed_forward": ("feed-forward", "mlp"), "memory": ("memory", "end"),
    "out": ("output rows", "end"), "logits": ("logits", "end"),
}  # fmt: skip


def architecture(model: Any, alt: str | None = None, title: str | None = None) -> Picture:
    """The encoder-decoder as boxes, one for each stage of the model, in words.

    model: the activations of a forward pass (out.activations; then shapes are shown), or a Config. One layer a side is drawn.
    """
    activations, layers = _stages_of(model)
    shapes = _stage_shapes(activations)
    columns = {side: [s for s in shapes if s.split(".")[0] == side] for side in ("encoder", "decoder")}
    if not columns["encoder"] or not columns["decoder"]:
        raise ValueError("model had no stages named encoder.… and decoder.…; it must be a Config or the activations of an encoder-decoder")
    columns["decoder"] += [s for s in shapes if "." not in s]
    with book_style():
        import matplotlib.pyplot as plt

        figure, axis = plt.subplots(figsize=(8.0, 0.36 * max(map(len, columns.values())) + 0.4))
        axis.set_axis_off()
        places = {}
        for x, (side, stages) in zip((0.0, WIDTH + 1.9), columns.items()):
            for y, stage in enumerate(stages):
                places[stage] = (x, float(y))
                _stage_box(axis, x, y, stage, shapes[stage])
            _column_arrows(axis, [places[s] for s in stages])
            _skip_arrows(axis, stages, places)
            _layer_frame(axis, stages, places, side, layers)
        _memory_arrow(axis, places)
        axis.set(xlim=(-0.9, 2 * WIDTH + 2.2), ylim=(-0.6, max(map(len, columns.values())) - 0.3))
        if title:
            axis.set_title(title)
        return picture(figure, alt or _architecture_alt(columns, layers))


def bars(values: Any, labels: Sequence | None = None, title: str | None = None, alt: str | None = None, digits: int = 2, ylabel: str | None = None) -> Picture:
    """Vectors as bars with their numbers. values: one vector, or {"name": vector, ...} of one length."""
    series = {k: f.as_floats(v) for k, v in values.items()} if isinstance(values, Mapping) else {"": f.as_floats(values)}
    lengths = {v.shape for v in series.values()}
    if len(lengths) != 1 or len(next(iter(lengths))) != 1 or not next(iter(lengths))[0]:
        raise ValueError(f"values had shapes {sorted(lengths)}; they must be vectors of one length")
    n = next(iter(lengths))[0]
    labels = axis_labels("labels", range(n) if labels is None else labels, n)
    with book_style():
        import matplotlib.pyplot as plt

        figure, axis = plt.subplots(figsize=(max(3.2, min(0.3 * n * (len(series) + 1) + 1.2, 8.0)), 2.6), layout="constrained")
        width = 0.8 / len(series)
        for k, (name, vector) in enumerate(series.items()):
            drawn = axis.bar(np.arange(n) + (k - (len(series) - 1) / 2) * width, vector, width * 0.92, label=name or None)
            if n * len(series) <= 24:
                axis.bar_label(drawn, [f.text(v, digits).replace("-", "\N{MINUS SIGN}") for v in vector], fontsize=7.5, padding=1.5)
        axis.axhline(0, color=MUTED, linewidth=0.8)
        axis.set_xticks(range(n) if n <= 40 else range(0, n, n // 10), labels if n <= 40 else [labels[i] for i in range(0, n, n // 10)])
        axis.margins(y=0.12)
        axis.set_ylabel(ylabel or "")
        if any(series):
            axis.legend(frameon=False, fontsize=8.5)
        if title:
            axis.set_title(title)
        return picture(figure, alt or _bars_alt(series, labels, title, digits))


def lines(
    x: Any,
    series: Mapping[str, Any],
    xlabel: str = "",
    ylabel: str = "",
    title: str | None = None,
    alt: str | None = None,
    logx: bool = False,
    logy: bool = False,
) -> Picture:
    """Curves over x: a learning-rate schedule, a loss over the steps. series: {"name": values}."""
    x = f.as_floats(x)
    drawn = {name: f.as_floats(values) for name, values in series.items()}
    if not drawn or any(values.shape != x.shape or x.ndim != 1 for values in drawn.values()):
        raise ValueError(f"series had shapes {[v.shape for v in drawn.values()]}; each must have x's shape {x.shape}, one axis")
    with book_style():
        import matplotlib.pyplot as plt

        figure, axis = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
        for (name, values), style in zip(drawn.items(), ("-", "--", "-.", ":") * len(drawn)):
            axis.plot(x, values, style, label=name, linewidth=1.8)
        axis.set(xlabel=xlabel, ylabel=ylabel, xscale="log" if logx else "linear", yscale="log" if logy else "linear")
        if len(drawn) > 1:
            axis.legend(frameon=False, fontsize=9)
        if title:
            axis.set_title(title)
        ends = "; ".join(f"{name} goes from {f.significant(v[0], 3)} to {f.significant(v[-1], 3)}" for name, v in drawn.items())
        return picture(figure, alt or f"{title or 'Curves'}, over {xlabel or 'x'}: {ends}")


def projections(dy: Any, x: Any, gamma: Any = None, eps: Any = 1e-5, labels: Sequence | None = None, alt: str | None = None) -> Picture:
    """Layer norm backwards as a picture: the vector g = γ·dy, less its part along 1, less its part along x̂, is what is left (times 1/root: dx)."""
    x, gamma, _ = norm_inputs(x, gamma)
    normalised, _ = layer_norm(x, np.ones_like(x), np.zeros_like(x), eps)
    g = gamma * like(dy, x, "dy", 0)
    along_one, along_x = np.full(len(x), g.mean()), normalised * (g * normalised).mean()
    parts = {"g = γ · dy": g, "part along 1": along_one, "part along x̂": along_x, "what is left": g - along_one - along_x}
    labels = axis_labels("labels", range(len(x)) if labels is None else labels, len(x))
    with book_style():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 4, sharey=True, figsize=(8.2, 2.3), layout="constrained")
        for k, (axis, (name, vector)) in enumerate(zip(axes, parts.items())):
            axis.bar(range(len(x)), vector, color=("#3b82c4", "#d9822b", "#d9822b", "#3f9b6b")[k])
            axis.axhline(0, color=MUTED, linewidth=0.8)
            axis.set_title(("", "\N{MINUS SIGN} ", "\N{MINUS SIGN} ", "= ")[k] + name)
            axis.set_xticks(range(len(x)) if len(x) <= 12 else [], labels if len(x) <= 12 else [])
        said = "; ".join(f"{name}: {', '.join(f.TEXT.entries(v, 2).tolist()) if len(v) <= 12 else f'{len(v)} entries'}" for name, v in parts.items())
        return picture(figure, alt or f"Layer norm backwards, a vector less its two projections. {said}")


# --- the architecture's parts


def _stages_of(model) -> tuple[dict, int]:
    """The activations (shapes unknown, None, when only a Config is given) and the number of layers a side."""
    if isinstance(model, Mapping):
        layers = 1 + max((int(name.split(".")[1]) for name in model if name.count(".") > 1 and name.split(".")[1].isdigit()), default=0)
        return dict(model), layers
    if not is_dataclass(model):
        raise ValueError(f"model was a {type(model).__name__}; it must be a Config or the activations of a forward pass")
    from byhand.numpy import transformer  # the names come from the model itself, run once at the smallest size

    small = replace(model, d_model=2 * model.n_heads, d_k=2, d_v=2, d_ff=2, n_layers=1, source_vocab=2, target_vocab=2, eps=1e-5)
    tokens = np.array([[0, 1]])
    out = transformer.forward(transformer.init(small, seed=0), small, tokens, tokens)
    return dict.fromkeys(out.activations), model.n_layers


def _stage_shapes(activations) -> dict[str, tuple | None]:
    """Stage -> shape of what leaves it; the parts of a stage (q, k, v, mean, ...) are one box. Layer 0 only."""
    shapes = {}
    for name, value in activations.items():
        parts = name.split(".")
        if len(parts) > 2 and parts[1].isdigit() and parts[1] != "0":
            continue
        shapes[".".join(parts[:3])] = getattr(value, "shape", None)
    return shapes


def _kind(stage: str) -> tuple[str, str]:
    last = stage.split(".")[-1]
    kind = last if last in _KINDS else last.rpartition("_")[0]
    label, color = _KINDS.get(kind, (last.replace("_", " "), "add"))
    return label, COLORS[color]


def _stage_box(axis, x, y, stage, shape):
    label, color = _kind(stage)
    box(axis, x, y - 0.31, WIDTH, 0.62, color)
    axis.text(x + 0.12, y, label, ha="left", va="center", fontsize=10, zorder=4)
    if shape is not None:
        axis.text(x + WIDTH - 0.1, y, " × ".join(map(str, shape)), ha="right", va="center", fontsize=7.5, zorder=4)


def _column_arrows(axis, places):
    for (x, low), (_, high) in zip(places, places[1:]):
        arrow(axis, (x + WIDTH / 2, low + 0.31), (x + WIDTH / 2, high - 0.31))


def _skip_arrows(axis, stages, places):
    """From below a sublayer around it to the addition."""
    for k, stage in enumerate(stages):
        if not stage.split(".")[-1].startswith("residual"):
            continue
        x, y = places[stage]
        below = places[stages[k - 2]][1] + 0.5  # the wire that enters the sublayer
        axis.plot([x + WIDTH / 2, x - 0.35, x - 0.35], [below, below, y], color="#7a7b7c", linewidth=1.1, zorder=2)
        arrow(axis, (x - 0.35, y), (x, y), color="#7a7b7c")


def _layer_frame(axis, stages, places, side, layers):
    inside = [places[s] for s in stages if len(s.split(".")) > 2]
    if not inside:
        return
    x, low, high = inside[0][0], inside[0][1], inside[-1][1]
    frame(axis, x - 0.55, low - 0.44, WIDTH + 0.75, high - low + 0.88, linewidth=0.9)
    beside, align = (x - 0.62, "right") if side == "encoder" else (x + WIDTH + 0.27, "left")  # where no arrow passes
    axis.text(beside, (low + high) / 2, f"{side} layer, × {layers}", rotation=90, ha=align, va="center", fontsize=8.5)


def _memory_arrow(axis, places):
    memory, cross = places.get("encoder.memory"), places.get("decoder.0.cross_attention")
    if memory is None or cross is None:
        return
    color, turn = "#b45fb0", WIDTH + 0.3
    axis.plot([memory[0] + WIDTH, turn, turn], [memory[1], memory[1], cross[1] - 0.12], color=color, linewidth=1.3, zorder=2)
    arrow(axis, (turn, cross[1] - 0.12), (cross[0], cross[1] - 0.12), color=color)
    axis.text(turn + 0.06, (memory[1] + cross[1]) / 2, "keys,\nvalues", ha="left", va="center", fontsize=7.5)


def _architecture_alt(columns, layers) -> str:
    def said(stages):
        return ", ".join(f"{_kind(s)[0]}" for s in stages)

    return (
        f"The encoder-decoder from the input up, {layers} layer{'s' if layers > 1 else ''} a side. Encoder: {said(columns['encoder'])}. "
        f"Decoder: {said(columns['decoder'])}. An arrow leads from the encoder's memory to the decoder's cross-attention; "
        "each addition also receives what entered its sublayer."
    )


# --- bars and their like


def _bars_alt(series, labels, title, digits) -> str:
    def said(vector):
        shown = f.TEXT.entries(vector, digits)
        return ", ".join(f"{label} {v}" for label, v in zip(labels, shown)) if len(shown) <= 12 else f"{len(shown)} bars"

    return f"{title or 'Bars'}: " + "; ".join((f"{name}: " if name else "") + said(vector) for name, vector in series.items())
