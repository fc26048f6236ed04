"""A derivation: an operation defined on symbols, differentiated, and proved equal to the textbook's rule.

Nothing here knows a rule. `derive` takes the operation's output on symbolic entries, differentiates
L = Σ dy ⊙ y (so that ∂L/∂y is the upstream gradient dy) entry by entry, and holds the result beside the textbook's form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import sympy as sp

LONGEST = 60  # operations in an expression that is still shown in full


def symbols(name: str, rows: int, cols: int) -> sp.ImmutableMatrix:
    """A matrix of real symbols name_ij; a single row has name_j."""
    label = (lambda i, j: f"{name}_{j}") if rows == 1 else (lambda i, j: f"{name}_{i}{j}")
    return sp.ImmutableMatrix(rows, cols, lambda i, j: sp.Symbol(label(i, j), real=True))


@dataclass(frozen=True, eq=False)
class Derivation:
    """One rule, derived.

    operation   what was differentiated, in words
    result      name of what is derived: "dx", "dw", …
    inputs      the symbols by name, in the order of the operation's arguments; dy is the upstream gradient
    definition  the operation's output, written out on the symbols
    derivative  what SymPy makes of it
    textbook    the rule that the textbook gives, in the symbols and in the values that the forward pass saved
    saved       those values and what they stand for: softmax's p, layer norm's x̂ and σ
    formula     the rule in matrix form, LaTeX
    relation    a substitution that holds by definition and lets roots cancel in the proof
    note        anything to be said beside it
    """

    operation: str
    result: str
    inputs: Mapping[str, sp.Matrix]
    definition: sp.Matrix
    derivative: sp.Matrix
    textbook: sp.Matrix
    formula: str
    saved: Mapping[sp.Symbol, sp.Expr] = field(default_factory=dict)
    relation: Mapping[sp.Expr, sp.Expr] = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.operation}: {self.result}"

    @cached_property
    def difference(self) -> sp.ImmutableMatrix:
        """derivative − textbook, each entry brought over one denominator and multiplied out: 0 where the two are equal."""
        full = self.textbook.subs(self.saved, simultaneous=True)
        return sp.ImmutableMatrix((self.derivative - full).applyfunc(lambda entry: reduced(entry.subs(self.relation))))

    @property
    def difference_is_zero(self) -> bool:
        return self.difference.is_zero_matrix is True

    @cached_property
    def _compiled(self):
        names = list(self.inputs)
        flat = [list(self.inputs[name]) for name in names]
        return sp.lambdify(flat, sp.Matrix(self.derivative), modules="numpy", cse=True)

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
        """Definition, derivative and rule at one entry, then the rule in matrix form; long expressions are only counted."""
        lines = [rf"y &= {_shown(self.definition)}", rf"{self._symbol(row, col)} &= {_shown(self.derivative[row, col])}"]
        if self.textbook[row, col] != self.derivative[row, col]:
            lines.append(rf"&= {_shown(self.textbook[row, col])}")
        used = self.textbook[row, col].free_symbols
        lines += [rf"{sp.latex(symbol)} &= {_shown(value)}" for symbol, value in self.saved.items() if symbol in used]
        return "\n".join([r"\begin{aligned}", " \\\\\n".join([*lines, rf"{self.formula} &"]), r"\end{aligned}"])

    def _symbol(self, row, col):
        source = self.inputs.get(self.result.removeprefix("d"))
        if source is None or source.shape != self.derivative.shape:
            return rf"\text{{{self.result}}}_{{{row}{col}}}"
        return rf"\frac{{\partial L}}{{\partial {sp.latex(source[row, col])}}}"

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.to_latex()}$"

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {matrix.rows}×{matrix.cols}" for name, matrix in self.inputs.items())
        entries = len(self.difference)
        if self.difference_is_zero:
            verdict = f"derivative − textbook = 0 in all {entries} entries" if entries > 1 else "derivative − textbook = 0"
        else:
            wrong = sum(entry != 0 for entry in self.difference)
            verdict = f"derivative − textbook is not 0 in {wrong} of {entries} entries"
        return "\n".join(filter(None, [f"{self.name}  ({sizes})", verdict, self.note]))


def derive(
    operation: str,
    output: sp.Matrix,
    inputs: Mapping[str, sp.Matrix],
    wrt: str,
    textbook: sp.Matrix,
    formula: str,
    **details,
) -> Derivation:
    """∂L/∂wrt for L = Σ dy ⊙ output, by SymPy, entry by entry; `inputs` holds the symbols, dy among them unless the output is L itself."""
    loss = sum(dy * y for dy, y in zip(inputs["dy"], output)) if "dy" in inputs else output[0]
    derivative = inputs[wrt].applyfunc(lambda entry: sp.diff(loss, entry))
    return Derivation(operation, f"d{wrt}", inputs, output, derivative, textbook, formula, **details)


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


def _shown(value):
    operations = value.count_ops() if isinstance(value, sp.Expr) else sum(entry.count_ops() for entry in value)
    return sp.latex(value) if operations <= LONGEST else rf"\text{{({operations} operations)}}"
