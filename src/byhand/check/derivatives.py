"""A gradient against nudges: central differences, entry by entry or along random directions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .measure import as_floats, difference
from .report import Report, Row, off_by, place_text, within

Array = np.ndarray
H = 1e-5  # near the cube root of float64's precision, where truncation and rounding are both about 1e-10


def central_difference(f: Callable[[Array], float], x: Float[Array, "..."], index: tuple[int, ...] | int, h: float = H, order: int = 2) -> float:
    """∂f/∂x[index] ≈ (f(x + h e) − f(x − h e)) / 2h,  e the unit vector of that entry

    The error falls as h² until rounding, which grows as 1/h, takes over. order=4 takes the difference at 2h as well, which cancels the h² term:
    where a function is strongly curved. x stays as it is; f gets float64 copies.
    Raises ValueError for h that is not above 0 and another order, IndexError for an index that is not one entry of x.
    """
    unit = np.zeros(np.shape(x))
    if np.ndim(unit[index]):
        raise IndexError(f"index was {index!r}; it must name one entry of x, whose shape is {np.shape(x)}")
    unit[index] = 1
    return directional_difference(f, x, unit, h, order)


def directional_difference(
    f: Callable[[Array], float], x: Float[Array, "..."], direction: Float[Array, "..."], h: float = H, order: int = 2
) -> float:
    """⟨∇f, u⟩ ≈ (f(x + h u) − f(x − h u)) / 2h,  u the direction; with order=4, (4 d(h) − d(2h)) / 3"""
    if not 0 < h < np.inf:
        raise ValueError(f"h was {h}; it must be a finite number above 0")
    if order not in (2, 4):
        raise ValueError(f"order was {order}; it must be 2 or 4")
    x = np.asarray(x, np.float64)

    def slope(h):
        return (float(f(x + h * direction)) - float(f(x - h * direction))) / (2 * h)

    return slope(h) if order == 2 else (4 * slope(h) - slope(2 * h)) / 3


def numerical_gradient(f: Callable[[Array], float], x: Float[Array, "..."], h: float = H) -> Float[Array, "..."]:
    """Every entry's central difference, in x's shape"""
    gradient = np.empty(np.shape(x))
    for index in np.ndindex(gradient.shape):
        gradient[index] = central_difference(f, x, index, h)
    return gradient


@dataclass(frozen=True)
class GradientRow(Row):
    """by_hand and by_difference: the two values where they are furthest apart."""

    by_hand: float = 0.0
    by_difference: float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class GradientReport(Report):
    def header(self):
        return ["", "verdict", "where", "by hand", "by difference"]

    def cells(self, row):
        values = ["", ""] if row.holds else [f"{row.by_hand:.6g}", f"{row.by_difference:.6g}"]
        return super().cells(row) + values


def gradient_check(
    f: Callable,
    x: Array | Mapping[str, Array],
    gradient: Array | Mapping[str, Array],
    along: str = "entries",
    count: int | None = None,
    seed: int = 0,
    h: float = H,
    bound: float = 1e-6,
    order: int = 2,
) -> GradientReport:
    """agreement(gradient, central differences of f) ≤ bound, for every array

    f takes what x is, an array or a dict of arrays, and gives a number; gradient has x's names and shapes.
    along="entries": `count` random entries of each array (None: all of them). along="directions": each array is moved along `count` random
    directions (None: 3), entries ±1, and the slopes ⟨gradient, u⟩ are compared: two evaluations a direction, whatever the array's size.
    Choose points away from kinks, such as ReLU's 0: on the two sides of one the difference quotient is a mean of two slopes.
    Raises ValueError for names or shapes that differ and an unknown `along`.
    """
    if along not in ("entries", "directions"):
        raise ValueError(f"along was {along!r}; it must be 'entries' or 'directions'")
    if not isinstance(x, Mapping):
        return gradient_check(lambda values: f(values["x"]), {"x": x}, {"x": gradient}, along, count, seed, h, bound, order)
    if x.keys() != gradient.keys():
        raise ValueError(f"gradient must have x's names; only one of them has {', '.join(sorted(x.keys() ^ gradient.keys())[:4])}")
    rng = np.random.default_rng(seed)
    rows = []
    for name, value in x.items():
        if np.shape(gradient[name]) != np.shape(value):
            raise ValueError(f"the gradient of {name!r} had shape {np.shape(gradient[name])}; it must be {np.shape(value)}")
        right, places, by_hand, by_difference = as_floats(gradient[name], name), [], [], []
        for place, direction in (_entries if along == "entries" else _directions)(right.shape, count, rng):
            places.append(place)
            by_hand.append(right[direction != 0] @ direction[direction != 0])  # so that an infinity elsewhere is not asked
            by_difference.append(directional_difference(lambda moved: f({**x, name: moved}), value, direction, h, order))
        rows.append(_row(name, places, by_hand, by_difference, np.abs(right).max(), bound))
    failed = sum(not row.holds for row in rows)
    title = f"Central differences: {len(rows)} array{'s' * (len(rows) != 1)}, " + (f"{failed} differ" if failed else f"all agree {within(bound)}")
    return GradientReport(title, tuple(rows))


def _entries(shape, count, rng):
    """Names and unit vectors."""
    places = list(np.ndindex(shape))
    if count is not None and count < len(places):
        places = [places[i] for i in sorted(rng.choice(len(places), count, replace=False))]
    for place in places:
        unit = np.zeros(shape)
        unit[place] = 1
        yield place_text(place), unit


def _directions(shape, count, rng):
    for i in range(3 if count is None else count):
        yield f"direction {i}", rng.choice((-1.0, 1.0), shape)


def _row(name, places, by_hand, by_difference, size, bound):
    # the pair (size, size), the whole array's largest, sets the scale of the measure and never is the worst: a sample of entries that
    # happen to be small is not asked for more than the array is
    worst = difference([*by_hand, size], [*by_difference, size], name)
    place = worst.place[0] if worst.place[0] < len(places) else 0
    holds = bool(worst.error <= bound)
    verdict = f"agrees {within(bound)}" if holds else off_by(worst.error)
    return GradientRow(name, holds, worst.error, places[place], verdict, *map(float, worst.values))
