"""The backward pass on foot: one rule at a time, run on every worked example, each result held against the package's own gradient."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.display import Written, aligned, array
from byhand.worked.matrices import matrix, matrix_latex, shape_latex, shape_text
from byhand.worked.sums import sum_of_terms
from byhand.worked.verdicts import difference

BOUND = 1e-12
WIDEST = 9  # columns of numbers that stand beside one another


class Named(Mapping):
    """Arrays under their dotted names; within a layer the layer's own name may be left out. Remembers what was asked for."""

    def __init__(self, arrays: Mapping[str, np.ndarray], layer: str, what: str):
        self.arrays, self.layer, self.what, self.used = arrays, layer, what, set()

    def full(self, name: str) -> str:
        short = f"{self.layer}.{name}"
        return short if short in self.arrays else name

    def __getitem__(self, name: str) -> np.ndarray:
        full = self.full(name)
        if full not in self.arrays:
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

    def __init__(self, case: Any, layer: str):
        from byhand.numpy import step

        result = step.run(case)
        self.case, self.config = case, case.config
        self.right = result.gradients.stages | result.gradients.params
        self.params = set(case.params)
        self.a = Named(result.output.activations, layer, "an activation")
        self.p = Named(case.params, layer, "a parameter")
        self.g = Named({}, layer, "a gradient that this walk has found")


class Walk:
    """Every gradient of a layer, found by rules that stand on the page.

    cases: worked examples by name. layer: the dotted name that may be left out, such as decoder.0.
    """

    def __init__(self, layer: str = "", **cases: Any):
        if not cases:
            raise ValueError("cases was empty; it must name at least one worked example")
        self.layer = layer
        self.cases = {name: OnFoot(case, layer) for name, case in cases.items()}

    def __call__(self, name: str, rule: Callable[[OnFoot], Any], symbol: str | None = None, digits: int = 4) -> Written:
        """The gradient of a stage or a parameter by `rule`, on every case; AssertionError where it is not the package's within 1e-12."""
        values = {case: self._found(name, case, rule(on_foot)) for case, on_foot in self.cases.items()}
        return _side_by_side(values, symbol, digits)

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

    def take(self, *names: str) -> None:
        """Gradients that an earlier page found: from here on the rules may use them."""
        for on_foot in self.cases.values():
            for name in names:
                if name not in on_foot.right:
                    raise ValueError(f"names held {name!r}; each must be a stage or a parameter: {', '.join(on_foot.right)}")
                on_foot.g.arrays[name] = on_foot.right[name]

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
        full = f"{self.layer}.{name}" if f"{self.layer}.{name}" in on_foot.right else name
        if full not in on_foot.right:
            raise ValueError(f"name was {name!r}; it must be a stage or a parameter: {', '.join(on_foot.right)}")
        value = np.asarray(value, dtype=float)
        if value.shape != on_foot.right[full].shape:
            raise AssertionError(f"{full} on {case}: this rule gives the shape {value.shape}; it must be {on_foot.right[full].shape}")
        worst = difference(value, on_foot.right[full], full)
        if not worst.error <= BOUND:
            raise AssertionError(f"{full} on {case}: this rule gives {worst.values[0]:.9g} at {worst.place}; it must be {worst.values[1]:.9g}")
        on_foot.g.arrays[full] = value
        return value


def _side_by_side(values, symbol, digits) -> Written:
    """Each case's matrices (one for each head) under its name, beside one another where there is room."""
    parts, text = [], []
    for case, value in values.items():
        value = _matrix(value)
        label = rf"\text{{{case}}},\; {shape_latex(value.shape)}"
        scale = f.scale_of(value)
        panels = [value] if value.ndim < 3 else list(value)
        written = r"\;\; ".join(matrix_latex(panel, None, None, digits, scale, None) for panel in panels)
        parts.append((rf"\underset{{{label}}}{{{written}}}", sum(panel.shape[-1] for panel in panels)))
        shown = [matrix(panel, digits=digits, limit=None).text for panel in panels]
        text.append("\n".join([f"{case} {shape_text(value.shape)}", *shown]))
    name = f"{f.name_latex(symbol)}: \\quad " if symbol else ""
    if sum(width for _, width in parts) <= WIDEST:
        latex = name + r" \qquad ".join(part for part, _ in parts)
    else:
        latex = aligned([(name if k == 0 else "") + "& " + part for k, (part, _) in enumerate(parts)])
    heading = [f.name_text(symbol)] if symbol else []
    return Written("\n".join(heading + text), latex, value=values)


def _matrix(value):
    """Without the batch axis, when there is one sequence."""
    return value[0] if value.ndim > 2 and len(value) == 1 else value
