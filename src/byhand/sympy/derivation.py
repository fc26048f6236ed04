"""A derivation: an operation defined on symbols, differentiated, and proved equal to the textbook's rule.

Nothing here knows a rule. `derive` takes the operation's output on symbolic entries, differentiates
L = Σ dy ⊙ y (so that ∂L/∂y is the upstream gradient dy) entry by entry, and holds the result beside the textbook's form.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps

import numpy as np
import sympy as sp

from ..doors import whole

LONGEST = 45  # operations in an expression that is still shown in full


def symbols(name: str, rows: int, cols: int) -> sp.ImmutableMatrix:
    """A matrix of real symbols name_ij; a single row has name_j, and what has an index already, like w_1, has w_{1,ij}."""
    base, _, index = name.partition("_")

    def label(i, j):
        place = f"{j}" if rows == 1 else f"{i}{j}"
        return f"{base}_{{{index},{place}}}" if index else f"{base}_{place}"

    return sp.ImmutableMatrix(rows, cols, lambda i, j: sp.Symbol(label(i, j), real=True))


@dataclass(frozen=True, eq=False)
class Derivation:
    """One rule, derived.

    operation   what was differentiated, in words
    result      name of what is derived: "dx", "dw", …
    inputs      the symbols by name, in the order of the operation's arguments; dy is the upstream gradient
    definition  the operation's output, written out on the symbols
    derivative  what SymPy's differentiation gives, as it comes
    simplified  the same, rewritten by SymPy in the values that the forward pass saved, if a rewriting is known
    textbook    the rule that the textbook gives, in the symbols and in values with names of their own
    where       those values and what they stand for, in the order in which they are computed: attention's A, then dS
    stated      the operation in matrix form, LaTeX, an equation
    formula     the rule in matrix form, LaTeX, an equation
    relation    a substitution that holds by definition and lets roots cancel in the proof
    note        anything to be said beside it
    """

    operation: str
    result: str
    inputs: Mapping[str, sp.Matrix]
    definition: sp.Matrix
    derivative: sp.Matrix
    textbook: sp.Matrix
    stated: str
    formula: str
    simplified: sp.Matrix | None = None
    where: Mapping[sp.Symbol, sp.Expr] = field(default_factory=dict)
    relation: Mapping[sp.Expr, sp.Expr] = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.operation}: {self.result}"

    @cached_property
    def difference(self) -> sp.ImmutableMatrix:
        """derivative − textbook, each entry brought over one denominator and multiplied out: 0 where the two are equal."""
        full = self.textbook
        for name, value in reversed(self.where.items()):
            full = full.subs(name, value)
        return sp.ImmutableMatrix((self.derivative - full).applyfunc(lambda entry: reduced(entry.subs(self.relation))))

    @property
    def difference_is_zero(self) -> bool:
        return self.difference.is_zero_matrix is True

    @cached_property
    def _compiled(self):
        names = list(self.inputs)
        flat = [list(self.inputs[name]) for name in names]
        return sp.lambdify(flat, sp.Matrix(self.derivative), modules=[{"erf": _erf}, "numpy"], cse=True)

    def numeric(self, **arrays) -> np.ndarray:
        """The derivative as numbers: `numeric(x=…, w=…, dy=…)`, arrays of the derivation's sizes.

        What the derivative does not depend on may be left out. The result has the shape of the array that it is the gradient of,
        if that was given, otherwise its shape here.
        Raises ValueError for an unknown or missing name or a size that differs.
        """
        for name in arrays:
            if name not in self.inputs:
                raise ValueError(f"{name!r} is not an input of {self.name}; it has {', '.join(self.inputs)}")
        flat = []
        for name, matrix in self.inputs.items():
            if name not in arrays:
                if self.derivative.free_symbols & matrix.free_symbols:
                    raise ValueError(f"{name} is missing; {self.name} depends on it")
                flat.append([0.0] * len(matrix))
                continue
            values = np.asarray(arrays[name], dtype=float)
            if values.size != len(matrix):
                raise ValueError(f"{name} had shape {values.shape}; this derivation was made for {matrix.shape}")
            flat.append(list(values.ravel()))
        result = np.asarray(self._compiled(*flat), dtype=float)
        like = arrays.get(self.result.removeprefix("d"))
        return result if like is None or np.size(like) != result.size else result.reshape(np.shape(like))

    def to_latex(self, row: int = 0, col: int = 0) -> str:
        """Operation, derivative and rule at one entry, the values in it, the rule in matrix form, and the verdict."""
        definition, derivative = (matrix.subs(self._tested) for matrix in (self.definition, self.derivative))
        if self._tested:
            entries = symbols("y", *definition.shape)
            lines = [_aligned(self.stated), *(_equation(sp.latex(name), value) for name, value in zip(entries, definition))]
        else:
            lines = [_equation(self.stated, definition) if _operations(definition) <= LONGEST else _aligned(self.stated)]
        steps = [matrix[row, col] for matrix in (derivative, self.simplified, self.textbook) if matrix is not None]
        steps = [step for step in dict.fromkeys(steps) if step not in definition]  # equal forms once
        for step in steps:
            name = self._name_of(row, col) if step is steps[0] else ""
            first, *others = sp.Add.make_args(step) if step.count(sp.Piecewise) > 2 else [step]
            lines += [_equation(name, first), *(rf"&\quad + {sp.latex(term)}" for term in others)]
        used = set(self.textbook[row, col].free_symbols) | set(self._tested.values())
        for name, value in reversed(self.where.items()):
            used |= value.free_symbols if name in used else set()
        lines += [_equation(sp.latex(name), value) for name, value in self.where.items() if name in used]
        lines += [_aligned(self.formula), rf"&\quad\text{{{self.verdict}}}"]
        return "\n".join([r"\begin{aligned}", " \\\\\n".join(lines), r"\end{aligned}"])

    @cached_property
    def _tested(self):
        """The values with a name that a case distinction asks about, to be shown by it: a bend in a network would repeat its whole input in every case."""
        asked = {side for case in self.definition.atoms(sp.Piecewise) for _, condition in case.args for side in condition.args}
        return {value: name for name, value in self.where.items() if value in asked}

    def _name_of(self, row, col):
        source = self.inputs.get(self.result.removeprefix("d"))
        if source is not None:
            return rf"\frac{{\partial L}}{{\partial {sp.latex(source[row, col])}}}"
        return "" if len(self.derivative) == 1 else f"{self.result[0].upper()}_{{{row}{col}}}"

    @property
    def verdict(self) -> str:
        entries = len(self.difference)
        if self.difference_is_zero:
            return f"derivative − rule = 0 in all {entries} entries" if entries > 1 else "derivative − rule = 0"
        return f"derivative − rule is not 0 in {sum(entry != 0 for entry in self.difference)} of {entries} entries"

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.to_latex()}$"

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {matrix.rows}×{matrix.cols}" for name, matrix in self.inputs.items())
        return "\n".join(filter(None, [f"{self.name}  ({sizes})", self.verdict, self.note]))


def counted(function: Callable) -> Callable:
    """Makes a derivation public: its sizes must be whole numbers of at least 1. Raises ValueError naming the first that is not."""
    signature = inspect.signature(function)
    sizes = [name for name, parameter in signature.parameters.items() if parameter.annotation is int]

    @wraps(function)
    def door(*args, **kwargs):
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        for name in sizes:
            whole(name, given.arguments[name])
        return function(*args, **kwargs)

    return door


def derive(
    operation: str,
    output: sp.Matrix,
    inputs: Mapping[str, sp.Matrix],
    wrt: str,
    textbook: sp.Matrix,
    stated: str,
    formula: str,
    simplify=None,
    **details,
) -> Derivation:
    """∂L/∂wrt for L = Σ dy ⊙ output, by SymPy, entry by entry

    `inputs` holds the symbols, dy among them unless the output is L itself. `simplify` rewrites one entry in the saved values.
    """
    loss = sum(dy * y for dy, y in zip(inputs["dy"], output)) if "dy" in inputs else output[0]
    derivative = inputs[wrt].applyfunc(lambda entry: sp.diff(loss, entry))
    simplified = derivative.applyfunc(simplify) if simplify else None
    return Derivation(operation, f"d{wrt}", inputs, output, derivative, textbook, stated, formula, simplified, **details)


def reduced(expression: sp.Expr) -> sp.Expr:
    """0 where the expression is 0 for every value of its symbols; otherwise what is left of its numerator.

    Exponentials become products of independent unknowns, a case `a if condition else b` becomes b + gate·(a − b) with an
    unknown gate; what remains is a fraction of polynomials, which is 0 just when its numerator, multiplied out, has no term left.
    """
    unknowns = {}

    def unknown(key):
        return unknowns.setdefault(key, sp.Dummy(positive=True))

    def exponential(argument):
        terms = (term.as_coeff_Mul() for term in sp.Add.make_args(sp.expand(argument)))
        return sp.Mul(*(unknown(rest) ** factor for factor, rest in terms))

    def cases(*pairs):
        value = pairs[-1][0]
        for result, condition in reversed(pairs[:-1]):
            value = value + unknown(condition) * (result - value)
        return value

    polynomial = expression.replace(sp.exp, exponential).replace(sp.Piecewise, cases)
    numerator, _ = sp.fraction(sp.together(polynomial))
    return sp.expand(numerator)


def _erf(x):
    """NumPy has none."""
    return np.vectorize(math.erf, otypes=[float])(x)


def _equation(left, right):
    """left &= right, with a long right side only counted, and a matrix of one entry without brackets."""
    if isinstance(right, sp.MatrixBase) and len(right) == 1:
        right = right[0]
    long = rf"\text{{an expression of {_operations(right)} operations}}"
    return f"{left} &= {sp.latex(right) if _operations(right) <= LONGEST else long}"


def _aligned(equation):
    return equation.replace("=", "&=", 1)


def _operations(value):
    return value.count_ops() if isinstance(value, sp.Expr) else sum(entry.count_ops() for entry in value)
