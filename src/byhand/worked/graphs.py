"""The computation run backwards: an arrow for each way of the gradient, its norm beside it, a plus where ways meet."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.plotting import PAPER, Picture, arrow, book_style, box, picture

Edges = dict[tuple[str, str], float]
Places = dict[str, tuple[float, float]]

BLUE, GREY, GOLD = "#3b82c4", "#7a7b7c", "#f0c36b"
HEIGHT = 0.42  # of a box; a row is 1 high
NOTHING = 1e-12  # a norm this much smaller than the largest is rounding


def reversed_graph(
    norms: Mapping[tuple[str, str], Any],
    places: Mapping[str, tuple[float, float]],
    title: str | None = None,
    alt: str | None = None,
    digits: int = 3,
    labels: Mapping[str, str] | None = None,
) -> Picture:
    """The ways of the gradient through any graph. A way that carries nothing is dotted.

    norms: {(from, to): norm or gradient array} in the direction in which gradients flow, from the loss. A gradient array stands for its
    norm. places: {node: (x, row)}, row 0 at the top. labels: what stands in a node's box, where that is not its name.
    Raises ValueError for no arrows, a norm that is not finite, and places that lack a node.
    """
    edges = {(str(a), str(b)): _norm(value) for (a, b), value in norms.items()}
    if not edges:
        raise ValueError("norms was empty; it must hold at least one (from, to)")
    where = _given(places, dict.fromkeys(node for edge in edges for node in edge))
    labels = {node: (labels or {}).get(node, node) for node in where}
    arriving = Counter(b for _, b in edges)
    largest = max(edges.values())
    with book_style():
        import matplotlib.pyplot as plt

        left, right = (side * max(side * x for x, _ in where.values()) for side in (-1, 1))
        low = min(y for _, y in where.values())
        unit = min(2.2, 8.2 / (right - left + 1.4))
        figure, axis = plt.subplots(figsize=(max(unit * (right - left + 1.4), 3.6), 0.72 * (1 - low) + 0.3))
        axis.set_axis_off()
        for (a, b), norm in edges.items():
            nothing = norm <= NOTHING * largest
            _way(axis, a, b, where, labels, "0" if nothing else f.significant(norm, digits), nothing)
        for node, (x, y) in where.items():
            _box(axis, x, y, labels[node])
            if arriving[node] > 1:
                _plus(axis, x - _half(labels[node]), y + HEIGHT / 2)
        axis.set(xlim=(left - 0.7, right + 0.7), ylim=(low - 0.4, 0.5))
        if title:
            axis.set_title(title)
        return picture(figure, alt or _alt(edges, arriving, digits, largest))


def reversed_model(stages: Mapping[str, Any], title: str | None = None, alt: str | None = None, digits: int = 2) -> Picture:
    """The encoder-decoder run backwards, from the loss to the embedded rows: the decoder on the left, the encoder on the right.

    stages: the gradient of every stage, `step.run(case).gradients.stages`, of a model with one layer a side.
    """
    if "decoder.0.norm_3.out" not in stages or any(name.startswith(("encoder.1.", "decoder.1.")) for name in stages):
        raise ValueError("stages must be the gradients of an encoder-decoder with one layer a side, as step.run(case).gradients.stages")
    norms = {ends: stages[name] for ends, name in _WAYS.items()}
    labels = {node: node.split(" ", 1)[1] for node in _PLACES if node.startswith(("decoder ", "encoder ", "cross ")) and not node.endswith("rows")}
    return reversed_graph(norms, _PLACES, title, alt, digits, labels)


# --- the whole model's ways and places

_X = 1.7  # of the encoder's column; the decoder's is its mirror
_PLACES: Places = {
    "loss": (-_X, 0), "logits": (-_X, 1), "decoder norm 3": (-_X, 2), "decoder feed-forward": (-_X, 3), "decoder norm 2": (-_X, 4),
    "decoder cross-attention": (-_X, 5), "cross Q": (-_X, 6), "cross K": (_X - 0.4, 6), "cross V": (_X + 0.4, 6), "decoder norm 1": (-_X, 7),
    "decoder self-attention": (-_X, 8), "decoder Q": (-_X - 0.82, 9), "decoder K": (-_X, 9), "decoder V": (-_X + 0.82, 9), "decoder rows": (-_X, 10),
    "memory": (_X, 7), "encoder feed-forward": (_X, 8), "encoder norm 1": (_X, 9), "encoder self-attention": (_X, 10),
    "encoder Q": (_X - 0.82, 11), "encoder K": (_X, 11), "encoder V": (_X + 0.82, 11), "encoder rows": (_X, 12),
}  # fmt: skip


def _self_attention(side: str) -> dict[tuple[str, str], str]:
    """From the norm after self-attention to the rows that entered the layer: around it, and three ways through it."""
    layer = f"{side}.0"
    ways = {(f"{side} norm 1", f"{side} self-attention"): f"{layer}.residual_1", (f"{side} norm 1", f"{side} rows"): f"{layer}.input.via_residual"}
    for letter, via in (("Q", "query"), ("K", "key"), ("V", "value")):
        ways[f"{side} self-attention", f"{side} {letter}"] = f"{layer}.self_attention.{letter.lower()}"
        ways[f"{side} {letter}", f"{side} rows"] = f"{layer}.input.via_{via}"
    return ways


_WAYS = {
    ("loss", "logits"): "logits",
    ("logits", "decoder norm 3"): "decoder.out",
    ("decoder norm 3", "decoder feed-forward"): "decoder.0.residual_3",
    ("decoder norm 3", "decoder norm 2"): "decoder.0.norm_2.out.via_residual",
    ("decoder feed-forward", "decoder norm 2"): "decoder.0.norm_2.out.via_feed_forward",
    ("decoder norm 2", "decoder cross-attention"): "decoder.0.residual_2",
    ("decoder norm 2", "decoder norm 1"): "decoder.0.norm_1.out.via_residual",
    ("decoder cross-attention", "cross Q"): "decoder.0.cross_attention.q",
    ("decoder cross-attention", "cross K"): "decoder.0.cross_attention.k",
    ("decoder cross-attention", "cross V"): "decoder.0.cross_attention.v",
    ("cross Q", "decoder norm 1"): "decoder.0.norm_1.out.via_query",
    ("cross K", "memory"): "decoder.0.memory.via_key",
    ("cross V", "memory"): "decoder.0.memory.via_value",
    **_self_attention("decoder"),
    ("memory", "encoder feed-forward"): "encoder.0.residual_2",
    ("memory", "encoder norm 1"): "encoder.0.norm_1.out.via_residual",
    ("encoder feed-forward", "encoder norm 1"): "encoder.0.norm_1.out.via_feed_forward",
    **_self_attention("encoder"),
}


# --- parts


def _norm(value) -> float:
    values = f.as_floats(value)
    norm = float(np.sqrt((values**2).sum()))
    if not np.isfinite(norm):
        raise ValueError("norms held a number that is not finite; each must be finite")
    return norm


def _given(places, nodes) -> Places:
    missing = [node for node in nodes if node not in places]
    if missing:
        raise ValueError(f"places lacked {', '.join(missing)}; each node of norms must have one")
    return {node: (float(places[node][0]), -float(places[node][1])) for node in nodes}


def _way(axis, a, b, where, labels, text, nothing):
    (x0, y0), (x1, y1) = where[a], where[b]
    style = {"color": GREY, "linestyle": ":" if nothing else "-"}
    if y0 - y1 > 1.5:  # a way that skips rows goes around what stands in them, on its own side
        side = 1 if (x0 + x1) > 0 or (x0 + x1) == 0 and labels[a] != labels[b] else -1
        between = [side * x + _half(labels[n]) for n, (x, y) in where.items() if y1 <= y <= y0 and side * x >= min(side * x0, side * x1, 0)]
        far = side * (max(between) + 0.25)
        start, end = x0 + side * _half(labels[a]), x1 + side * _half(labels[b])
        leave, arrive = y0 - 0.08, y1 + 0.08
        axis.plot([start, far, far], [leave, leave, arrive], linewidth=1.2, zorder=1, **style)
        arrow(axis, (far, arrive), (end, arrive), **style)
        x, y = far, (y0 + y1) / 2
    elif abs(x0 - x1) > 1.5:  # far to the side: out of the box's side
        side = 1 if x1 > x0 else -1
        start, end = (x0 + side * _half(labels[a]), y0), (x1, y1 + HEIGHT / 2)
        arrow(axis, start, end, **style)
        x, y = (0.35 * s + 0.65 * e for s, e in zip(start, end))
    else:
        arrow(axis, (x0, y0 - HEIGHT / 2), (x1, y1 + HEIGHT / 2), **style)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
    axis.text(x, y, text, ha="center", va="center", fontsize=8, bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.0}, zorder=4)


def _half(label: str) -> float:
    """Half the width of the box that a label needs."""
    return 0.2 if len(label) <= 2 else 0.42 if len(label) <= 9 else 0.52


def _box(axis, x, y, label):
    box(axis, x - _half(label), y - HEIGHT / 2, 2 * _half(label), HEIGHT, BLUE, rounding=0.06)
    axis.text(x, y, label, ha="center", va="center", fontsize=8.5, zorder=4)


def _plus(axis, x, y):
    shape = {"boxstyle": "circle,pad=0.1", "facecolor": GOLD, "edgecolor": "none"}
    axis.text(x, y, "+", ha="center", va="center", fontsize=11, fontweight="bold", bbox=shape, color="#000000", zorder=5)


def _alt(edges: Edges, arriving, digits, largest) -> str:
    said = "; ".join(f"{a} to {b}, length {'0' if n <= NOTHING * largest else f.significant(n, digits)}" for (a, b), n in edges.items())
    meets = [node for node, count in arriving.items() if count > 1]
    return f"The gradient's paths: {said}." + (f" Paths meet and are summed at {', '.join(meets)}." if meets else "")
