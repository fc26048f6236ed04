"""A gradient against nudges: central differences, entry by entry or along random directions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..doors import whole
from .copies import fresh
from .doors import checked
from .measure import TOO_SMALL, as_floats, difference
from .report import Report, Row, counted, off_by, place_text, within

Array = np.ndarray
H = 1e-5  # near the cube root of float64's precision, where truncation and rounding are both about 1e-10
STILL = 16 * np.finfo(np.float64).eps  # of a function's value: what rounding alone may change in it
NOTHING = "nothing was checked: the function did not change in any direction tried (a sum of softmax's outputs is always 1): weigh its output by random numbers"


@checked()
def central_difference(f: Callable[[Array], float], x: Float[Array, "..."], index: tuple[int, ...] | int, h: float = H, order: int = 2) -> float:
    """∂f/∂x[index] ≈ (f(x + h e) − f(x − h e)) / 2h,  e the unit vector of that entry

    The error falls as h² until rounding, which grows as 1/h, takes over. order=4 takes the difference at 2h as well, which cancels the h² term:
    where a function is strongly curved. x stays as it is; f gets float64 copies (of a torch tensor too).
    Raises ValueError for h that is not above 0 and another order, IndexError for an index that is not one entry of x.
    """
    x = as_floats(x, "x")
    unit = np.zeros(x.shape)
    try:
        one = np.ndim(unit[index]) == 0
    except (IndexError, TypeError):
        one = False
    if not one:
        raise IndexError(f"index was {index!r}; it must name one entry of x, whose shape is {x.shape}")
    unit[index] = 1
    return directional_difference(f, x, unit, h, order)


@checked()
def directional_difference(
    f: Callable[[Array], float], x: Float[Array, "..."], direction: Float[Array, "..."], h: float = H, order: int = 2
) -> float:
    """⟨∇f, u⟩ ≈ (f(x + h u) − f(x − h u)) / 2h,  u the direction; with order=4, (4 d(h) − d(2h)) / 3"""
    if not 0 < h < np.inf:
        raise ValueError(f"h was {h}; it must be a finite number above 0")
    if order not in (2, 4):
        raise ValueError(f"order was {order}; it must be 2 or 4")
    x, direction = as_floats(x, "x"), as_floats(direction, "direction")
    if direction.shape != x.shape:
        raise ValueError(f"direction had shape {direction.shape}; it must be x's, {x.shape}")

    def slope(h):
        return (float(f(x + h * direction)) - float(f(x - h * direction))) / (2 * h)

    return slope(h) if order == 2 else (4 * slope(h) - slope(2 * h)) / 3


@checked()
def numerical_gradient(f: Callable[[Array], float], x: Float[Array, "..."], h: float = H) -> Float[Array, "..."]:
    """Every entry's central difference, in x's shape"""
    x = as_floats(x, "x")
    gradient = np.empty(x.shape)
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
        values = ["", ""] if row.holds is not False else [f"{row.by_hand:.6g}", f"{row.by_difference:.6g}"]
        return super().cells(row) + values


@checked()
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

    f takes what x is, an array or a dict of arrays, and gives a number; it gets float64 copies. gradient has x's names and shapes.
    along="entries": `count` random entries of each array (None: all of them). along="directions": each array is moved along `count` random
    directions (None: 3), entries ±1, and the slopes ⟨gradient, u⟩ are compared: two evaluations a direction, whatever the array's size.
    Choose points away from kinks, such as ReLU's 0: on the two sides of one the difference quotient is a mean of two slopes.
    Open, and not a pass, is an array whose gradient and quotients lie below the measure's floor and do not agree by their own size
    (`Difference.holds`); where no nudge changes f by more than rounding the title says that nothing was checked.
    Raises ValueError for names or shapes that differ, an unknown `along` and a count below 1.
    """
    whole("seed", seed, 0)
    if along not in ("entries", "directions"):
        raise ValueError(f"along was {along!r}; it must be 'entries' or 'directions'")
    check_count(count)
    if not isinstance(x, Mapping):
        return gradient_check(lambda values: f(values["x"]), {"x": x}, {"x": gradient}, along, count, seed, h, bound, order)
    if not isinstance(gradient, Mapping) or x.keys() != gradient.keys():
        odd = sorted(x.keys() ^ gradient.keys())[:4] if isinstance(gradient, Mapping) else [type(gradient).__name__]
        raise ValueError(f"gradient must have x's names; only one of them has {', '.join(odd)}")
    x, rng, rows, moves = {name: as_floats(value, name) for name, value in x.items()}, np.random.default_rng(seed), [], []
    for name, value in x.items():
        right, places, by_hand, by_difference = as_floats(gradient[name], f"the gradient of {name!r}"), [], [], []
        if right.shape != value.shape or not value.size:
            raise ValueError(f"the gradient of {name!r} had shape {right.shape}; it must be {value.shape}, with at least one entry")
        moving = Moving(f, x, name)
        for place, direction in {"entries": _entries, "directions": _directions}[along](right.shape, count, rng):
            places.append(place)
            by_hand.append(right[direction != 0] @ direction[direction != 0])  # so that an infinity elsewhere is not asked
            by_difference.append(directional_difference(moving, value, direction, h, order))
        rows.append(_row(name, places, by_hand, by_difference, np.abs(right).max(), bound))
        moves.append(moving.moved)
    if not any(moves) and all(row.holds is not False for row in rows):
        rows = [replace(row, holds=None, verdict="left open: f did not change") for row in rows]
        return GradientReport(f"Central differences: {NOTHING}", tuple(rows))
    return GradientReport(_title(rows, bound), tuple(rows))


class Moving:
    """f with one array exchanged, each time on copies of the others; `moved` tells whether its value has changed by more than rounding."""

    def __init__(self, f: Callable, arrays: Mapping[str, Array], name: str):
        self.f, self.arrays, self.name = f, arrays, name
        self.low, self.high = np.inf, -np.inf

    def __call__(self, value: Array) -> float:
        found = float(self.f({key: value.copy() if key == self.name else fresh(array) for key, array in self.arrays.items()}))
        self.low, self.high = np.minimum(self.low, found), np.maximum(self.high, found)  # NaN stays
        return found

    @property
    def moved(self) -> bool:
        return bool(not self.high - self.low <= STILL * max(abs(self.low), abs(self.high)))  # NaN is movement


def check_count(count: int | None) -> None:
    if count is not None:
        whole("count", count)


def _title(rows, bound):
    failed, small = sum(row.holds is False for row in rows), sum(row.holds is None for row in rows)
    held = len(rows) - failed - small
    agree = f"{'all agree' if held == len(rows) else '1 agrees' if held == 1 else f'{held} agree'} {within(bound)}"
    parts = ([f"{failed} differ"] if failed else [agree] if held else []) + ([f"{small} left open, {TOO_SMALL}"] if small else [])
    return f"Central differences: {counted(len(rows), 'array')}, " + ", ".join(parts)


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
    holds = worst.holds(bound)
    verdict = {True: f"agrees {within(bound)}", False: off_by(worst.error), None: f"left open: {TOO_SMALL}"}[holds]
    return GradientRow(name, holds, worst.error, places[place], verdict, *map(float, worst.values))
