"""The backward pass on foot: one rule at a time, run on every worked example, each result held against the package's own gradient."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from byhand.check.measure import difference
from byhand.worked import formatting as f
from byhand.worked.display import Written, array, stacked
from byhand.worked.matrices import write_matrix, write_shape
from byhand.worked.sums import sum_of_terms

BOUND = 1e-12


class Named(Mapping):
    """Arrays under their dotted names; what the names share with the place where the walk is may be left out. Remembers what was asked for."""

    def __init__(self, arrays: Mapping[str, np.ndarray], place: str, what: str, used: set[str]):
        self.arrays, self.place, self.what, self.used = arrays, place, what, used

    def __getitem__(self, name: str) -> np.ndarray:
        full = _full(name, self.place, self.arrays)
        if full is None:
            raise ValueError(f"{name!r} is not {self.what}; there are {', '.join(self.arrays) or 'none yet'}")
        self.used.add(full)
        return self.arrays[full]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


class OnFoot:
    """What a rule may use of one worked example.

    case, config    the example itself
    a               every activation of the forward pass
    p               every parameter
    g               the gradients that this walk has found so far, and no others
    """

    def __init__(self, case: Any, place: str):
        from byhand.numpy import step

        result = step.run(case)
        self.case, self.config = case, case.config
        self.right = result.gradients.stages | result.gradients.params
        self._known = {"a": (result.output.activations, "an activation", set()), "p": (case.params, "a parameter", set())}
        self._known["g"] = ({}, "a gradient that this walk has found", set())
        self._stand_at(place)

    def at(self, place: str) -> "OnFoot":
        """The same example, with what it has found, seen from another place."""
        other = object.__new__(OnFoot)
        other.__dict__.update(self.__dict__)
        other._stand_at(place)
        return other

    def _stand_at(self, place):
        self.place = place
        self.a, self.p, self.g = (Named(arrays, place, what, used) for arrays, what, used in self._known.values())


class Walk:
    """Every gradient of a model, found by rules that stand on the page.

    cases: worked examples by name. place: the dotted name that may be left out, such as decoder.0. There `w_1` finds decoder.0.w_1, or
    decoder.w_1, or w_1.
    """

    def __init__(self, place: str = "", **cases: Any):
        if not cases:
            raise ValueError("cases was empty; it must name at least one worked example")
        self.place = place
        self.cases = {name: OnFoot(case, place) for name, case in cases.items()}

    def __call__(self, name: str, rule: Callable[[OnFoot], Any], symbol: str | None = None, digits: int = 4) -> Written:
        """The gradient of a stage or a parameter by `rule`, on every case; AssertionError where it is not the package's within 1e-12."""
        values = {case: self._found(name, case, rule(on_foot)) for case, on_foot in self.cases.items()}
        return _one_above_another(values, symbol, digits)

    def fork(self, name: str, symbol: str = "dX", digits: int = 4, **paths: Callable[[OnFoot], Any]) -> Written:
        """A stage that was used several times: the gradient along each path, and their sum. `paths` are the names after `….via_`.

        Each term and the sum must be the package's within 1e-12.
        """
        if not paths:
            raise ValueError("paths was empty; it must name at least one way back")
        parts, value = {}, {}
        for case, on_foot in self.cases.items():
            terms = {path: self._found(f"{name}.via_{path}", case, rule(on_foot)) for path, rule in paths.items()}
            value[case] = self._found(name, case, sum(terms.values()))
            labelled = [(path.replace("_", "-"), _matrix(term)) for path, term in terms.items()]
            parts[case] = sum_of_terms(labelled, symbol, digits=digits)
        text = "\n".join(f"{case}: {part.text}" for case, part in parts.items())
        lines = [[line] for case, part in parts.items() for line in (f.label_latex(case), rf"\quad {part.latex}")]
        return Written(text, array(lines, "l"), value=value)

    def inside(self, room: str) -> "Walk":
        """The same walk from inside a room, whose name may then be left out too."""
        other = object.__new__(Walk)
        other.place = f"{self.place}.{room}" if self.place else room
        other.cases = {name: on_foot.at(other.place) for name, on_foot in self.cases.items()}
        return other

    def take(self, *names: str) -> None:
        """Gradients that an earlier page found: from here on the rules may use them."""
        for on_foot in self.cases.values():
            for name in names:
                full = _full(name, self.place, on_foot.right)
                if full is None:
                    raise ValueError(f"names held {name!r}; each must be a stage or a parameter: {', '.join(on_foot.right)}")
                on_foot.g.arrays[full] = on_foot.right[full]

    def left(self, *prefixes: str) -> list[str]:
        """The stages and parameters whose names begin so and that the walk has not come to yet."""
        on_foot = next(iter(self.cases.values()))
        return [name for name in on_foot.right if name.startswith(prefixes) and name not in on_foot.g.arrays]

    def saved(self) -> dict[str, tuple[int, ...]]:
        """The activations that the rules asked for: what a forward pass has to keep. Name → shape in the first case."""
        on_foot = next(iter(self.cases.values()))
        return {name: value.shape for name, value in on_foot.a.arrays.items() if name in on_foot.a.used}

    def _found(self, name, case, value):
        on_foot = self.cases[case]
        full = _full(name, self.place, on_foot.right)
        if full is None:
            raise ValueError(f"name was {name!r}; it must be a stage or a parameter: {', '.join(on_foot.right)}")
        value, right = np.asarray(value, dtype=float), on_foot.right[full]
        if value.shape != right.shape:
            raise AssertionError(f"{full} on {case}: this rule gives the shape {value.shape}; it must be {right.shape}")
        worst = difference(value, right, full)
        if not worst.error <= BOUND:
            raise AssertionError(f"{full} on {case}: this rule gives {worst.values[0]:.9g} at {worst.place}; it must be {worst.values[1]:.9g}")
        on_foot.g.arrays[full] = value
        return value


def _full(name, place, names):
    """The longest name that `name` may stand for, seen from a place; None where there is none."""
    while place:
        if f"{place}.{name}" in names:
            return f"{place}.{name}"
        place = place.rpartition(".")[0]
    return name if name in names else None


def _one_above_another(values, symbol, digits) -> Written:
    """Each case's matrix, or one for each head beside one another."""

    def lines(form):
        if symbol and not form.is_latex:
            yield form.name(symbol)
        for k, (case, value) in enumerate(values.items()):
            value = _matrix(value)
            shape, scale = write_shape(form, value.shape), f.scale_of(value)
            panels = [write_matrix(form, panel, digits, scale, None) for panel in ([value] if value.ndim < 3 else value)]
            left = f"{form.name(symbol)}:" if symbol and k == 0 else ""
            shown = form(r"\;\; ", "\n").join(panels)
            yield form(rf"{left} \quad \underset{{{shape}}}{{{form.label(case)}}} &\;\; {shown}", f"{case} {shape}\n{shown}")

    return stacked(lines, values)


def _matrix(value):
    """Without the batch axis, when there is one sequence."""
    return value[0] if value.ndim > 2 and len(value) == 1 else value
