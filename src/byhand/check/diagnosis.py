"""How a wrong array differs from the right one, in words: the difference often has a shape that names the mistake."""

from collections.abc import Mapping
from itertools import permutations
from math import sqrt

import numpy as np

from .doors import checked
from .measure import FLOOR, as_floats, difference
from .report import place_text

Array = np.ndarray
MOST_NAMED = 4096  # integers n that a factor is tried against: n, 1/n, √n, 1/√n


@checked()
def diagnose(
    mine: Array, right: Array, bound: float = 1e-9, others: Mapping[str, Array] | None = None, paths: Mapping[str, Array] | None = None
) -> str:
    """In what way mine differs from the right array: "" where it agrees within the bound.

    Looked for, in this order: values that are not finite; another shape; one of `paths`, the arrays that may lead here, missing or added
    twice; one of `others`, the right arrays of other stages, in its place, missing or added; a constant factor; exchanged axes; heads or
    rows in another order; only some rows; the same difference in every row; a factor for each column or each row; signs.
    """
    mine, right = as_floats(mine, "mine"), as_floats(right, "right")
    if not np.isfinite(mine).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(mine))[0])
        return f"{mine[place]} at {place_text(place)}, the first of {np.count_nonzero(~np.isfinite(mine))} entries that are not finite"
    if mine.shape != right.shape:
        return _other_shape(mine, right, bound)
    if _same(mine, right, bound):
        return ""
    others, paths = others or {}, paths or {}
    looks = (_zero, _sum_of(paths), _in_place_of(others), _sum_of(others), _factor)
    looks += () if not right.ndim else (
        _exchanged_axes, _regrouped, _reordered, _some_slices, _constant_difference, _scaled_slices, _signs,
    )  # fmt: skip
    for look in looks:
        found = look(mine, right, bound)
        if found:
            return found
    return _size_of_difference(mine, right)


def _same(a, b, bound):
    return a.shape == b.shape and difference(a, b).holds(bound) is True


def _nonzero(x):
    return np.abs(x).max() > 0


# ---- each look gives a sentence, or "" ----------------------------------------------------------


def _zero(mine, right, bound):
    return "" if _nonzero(mine) else "it is all 0"


def _sum_of(paths):
    def look(mine, right, bound):
        for name, path in _of_shape(paths, right):
            if _same(mine, right - path, bound):
                return f"{name} is missing from the sum"
            if _same(mine, right + path, bound):
                return f"{name} is added once too often"
            if _same(mine, right - 2 * path, bound):
                return f"{name} is subtracted where it must be added"
        return ""

    return look


def _in_place_of(others):
    def look(mine, right, bound):
        return next((f"it is what {name} should be" for name, other in _of_shape(others, right) if _same(mine, other, bound)), "")

    return look


def _of_shape(arrays, right):
    arrays = ((name, as_floats(array, name)) for name, array in arrays.items())
    return [(name, array) for name, array in arrays if array.shape == right.shape and _nonzero(array)]


def _factor(mine, right, bound):
    """mine = c · right"""
    if not _nonzero(right):
        return ""
    c = (mine * right).sum() / (right * right).sum()
    if right.size == 1 and not factor_name(abs(c)):  # any number is some multiple of another
        return ""
    return factor_text(c) if c and _same(mine, c * right, bound) else ""


def factor_text(c: float) -> str:
    """A factor, and what it may stand for: 0.70711 times (1/√2) what it should be."""
    if abs(c + 1) < 1e-7:
        return "the sign is wrong everywhere"
    name = factor_name(abs(c))
    return f"{c:.5g} times " + (f"({'-' if c < 0 else ''}{name}) " if name and f"{abs(c):.5g}" != name else "") + "what it should be"


def factor_name(c: float, tolerance: float = 1e-7) -> str:
    """2, 1/2, √2 or 1/√2, or another such number; "" where it is none."""
    for n in range(1, MOST_NAMED):
        for value, name in ((n, f"{n}"), (1 / n, f"1/{n}"), (sqrt(n), f"√{n}"), (1 / sqrt(n), f"1/√{n}")):
            if abs(c / value - 1) < tolerance:
                return name
        if n > 1 and n < 65 and min(abs(c * (n - 1) / n - 1), abs(c * n / (n - 1) - 1)) < tolerance:
            return f"{n}/{n - 1}" if c > 1 else f"{n - 1}/{n}"
    return ""


def _exchanged_axes(mine, right, bound):
    axes = range(right.ndim)
    for i in axes:
        for j in range(i):
            swapped = right.swapaxes(i, j)
            if right.shape[i] > 1 and _same(mine, swapped, bound):
                return f"transposed: axes {j} and {i} are exchanged"
    return ""


def _reordered(mine, right, bound):
    """The same slices along one axis, in another order."""
    for axis in range(right.ndim):
        order = _order(mine, right, axis, bound)
        if order:
            what = "reversed" if order == list(range(len(order)))[::-1] else f"in the order {order}"
            return f"the slices along axis {axis} are {what}{_heads(right, axis)}"
    return ""


def _order(mine, right, axis, bound):
    n = right.shape[axis]
    if not 1 < n <= 64:
        return None
    size = max(np.abs(right).max(), FLOOR)
    mine, right = np.moveaxis(mine, axis, 0).reshape(n, -1), np.moveaxis(right, axis, 0).reshape(n, -1)
    order = []
    for row in mine:
        gaps = np.abs(right - row).max(axis=1)
        gaps[order] = np.inf
        if gaps.min() > bound * size:
            return None
        order.append(int(gaps.argmin()))
    return order if order != sorted(order) else None


def _heads(right, axis):
    return " (heads)" if right.ndim == 4 and axis == 1 else ""


def _regrouped(mine, right, bound):
    """Blocks of the last or first axis in another order, or split into heads the other way round."""
    for axis in {0, right.ndim - 1} if right.ndim else ():
        n = right.shape[axis]
        for blocks in range(2, n // 2 + 1):
            if n % blocks:
                continue
            width = n // blocks
            apart = np.moveaxis(right, axis, -1).reshape(*np.delete(right.shape, axis), blocks, width)
            flat = np.moveaxis(mine, axis, -1)
            if _same(flat, apart.swapaxes(-1, -2).reshape(flat.shape), bound):
                return f"interleaved: what should be {blocks} blocks of {width} along axis {axis} (heads) alternates entry by entry"
            if blocks <= 6:
                for order in permutations(range(blocks)):
                    if list(order) != sorted(order) and _same(flat, apart[..., list(order), :].reshape(flat.shape), bound):
                        return f"the {blocks} blocks of {width} along axis {axis} (heads) are in the order {list(order)}"
    return ""


def _some_slices(mine, right, bound):
    """Everything agrees but for some slices along one axis: the fewest."""
    wrong = np.abs(mine - right) > bound * max(np.abs(right).max(), np.abs(mine).max(), FLOOR)
    best = None
    for axis in range(right.ndim):
        slices = np.flatnonzero(wrong.any(axis=tuple(a for a in range(right.ndim) if a != axis)))
        share = len(slices) / right.shape[axis]
        if share < (1 if best is None else best[0]):
            best = share, axis, slices
    if best is None:
        return ""
    _, axis, slices = best
    inside = diagnose(np.take(mine, slices, axis), np.take(right, slices, axis), bound)
    shown = ", ".join(str(i) for i in slices[:6]) + (", …" if len(slices) > 6 else "")
    return f"only {'slice' if len(slices) == 1 else 'slices'} {shown} of {right.shape[axis]} along axis {axis} differ{'s' * (len(slices) == 1)}; there {inside}"


def _constant_difference(mine, right, bound):
    gap = mine - right
    if gap.size > 2 and _same(mine, right + gap.mean(), bound):
        return f"{gap.mean():.3g} is added to every entry"
    if right.ndim < 2:
        return ""
    rows = gap.reshape(-1, gap.shape[-1])
    if len(rows) > 1 and _same(rows, np.broadcast_to(rows[:1], rows.shape), bound):
        return "every row is off by the same row, as when a bias is missing or added twice"
    if rows.shape[1] > 1 and _same(rows, np.broadcast_to(rows[:, :1], rows.shape), bound):
        return "every row is off by one number of its own, as when a mean is not taken away"
    return ""


def _scaled_slices(mine, right, bound):
    """mine[..., j] = s_j right[..., j], or mine[i, :] = s_i right[i, :]"""
    if right.ndim < 2:
        return ""
    mine, right = mine.reshape(-1, mine.shape[-1]), right.reshape(-1, right.shape[-1])
    for axis, what in ((0, "column has a factor of its own, as when γ is left out or multiplied twice"), (1, "row has a factor of its own")):
        power = (right * right).sum(axis=axis, keepdims=True)
        scale = (mine * right).sum(axis=axis, keepdims=True) / np.where(power == 0, 1, power)
        if right.shape[axis] > 1 and _same(mine, scale * right, bound):
            return f"every {what}"
    return ""


def _signs(mine, right, bound):
    return "every entry has the right size, but some have the wrong sign" if _same(np.abs(mine), np.abs(right), bound) else ""


def _size_of_difference(mine, right):
    worst = difference(mine, right)
    where = f"most at {place_text(worst.place)}: {worst.values[0]:.6g} for {worst.values[1]:.6g}"
    if worst.error < 1e-3:
        return f"nearly right, off by {worst.error:.1g} ({where}), as with another ε or a lower precision"
    return f"it differs in no way known here, {where}"


def _other_shape(mine, right, bound):
    shapes = f"shape {mine.shape} for {right.shape}"
    if mine.size == right.size:
        if _same(mine.reshape(right.shape), right, bound):
            return f"{shapes}, with the same entries in the same order"
        for axes in permutations(range(mine.ndim)) if mine.ndim <= 5 else ():
            turned = mine.transpose(axes)
            if _same(turned, right, bound):
                return f"{shapes}: transposed, axes {axes}"
        for one, other, whose in ((mine, right, "its"), (right, mine, "the right one's")):
            for axes in permutations(range(one.ndim)) if one.ndim <= 4 else ():
                if _same(one.transpose(axes).reshape(other.shape), other, bound):
                    return f"{shapes}, with the same entries once {whose} axes are taken in the order {axes}"
        return shapes
    for small, large, words in ((mine, right, "it was not spread over"), (right, mine, "it was spread over")):
        if _broadcasts(small.shape, large.shape) and _same(np.broadcast_to(small, large.shape), large, bound):
            return f"{shapes}: the same numbers, but {words} the further axes (broadcasting)"
    for axis in range(mine.ndim):
        for keep in (False, True):
            for total, words in ((mine.sum(axis, keepdims=keep), "summed"), (mine.mean(axis, keepdims=keep), "averaged")):
                if _same(total, right, bound):
                    return f"{shapes}: it is not yet {words} over axis {axis}"
    return shapes


def _broadcasts(small, large):
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small[::-1], large[::-1]))
