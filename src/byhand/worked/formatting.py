"""How the book writes a number: one rule for floats, integers, NumPy scalars and SymPy's exact numbers.

- `digits` counts places after the point. Zeros at the end mean that the number was rounded: 0.5 is a half, 0.500 is near it;
  a whole number is shown without a point. -0 is shown as 0.
- A number too small or too large for that is shown in scientific notation, with `digits` significant figures.
- A tie rounds away from zero, as on a calculator, also when the processor left the number one bit short of the tie.
- What is left over from rounding (1e-12 of the largest number beside it; 2e-7 in float32) is shown as 0: it differs from
  processor to processor.
"""

import math
import numbers
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

LEFTOVER = 1e-12  # relative to `scale`: what float64 leaves behind where the true value is 0
SMALLEST_SCALE = 1e-3  # the same floor as in the measure of agreement
LARGEST_FIXED = 1e7
SHOWN = 8  # rows and columns of a matrix shown in full
TERMS_SHOWN = 8  # terms of a sum
KEPT = 3  # at each end of what is longer
GAP = None  # stands for what was left out


def is_exact(value) -> bool:
    """True for SymPy's numbers, expressions and matrices (SymPy itself is not imported for the question)."""
    return any(kind.__module__.partition(".")[0] == "sympy" for kind in type(value).__mro__)


def text(value, digits: int = 3, scale: float | None = None, pad: int = 0) -> str:
    """`value` in plain text: '0.944', '-0.5', '1.75e-7', '-∞'; an exact number as SymPy writes it."""
    if is_exact(value):
        return str(value)
    sign, mantissa, exponent = _parts(value, digits, scale, pad)
    return sign + mantissa + (f"e{exponent}" if exponent is not None else "")


def latex(value, digits: int = 3, scale: float | None = None, pad: int = 0) -> str:
    r"""`value` in LaTeX: '0.944', '1.75 \times 10^{-7}', '-\infty'; an exact number as SymPy writes it."""
    if is_exact(value):
        import sympy

        return sympy.latex(value)
    sign, mantissa, exponent = _parts(value, digits, scale, pad)
    mantissa = {"nan": r"\text{nan}", "∞": r"\infty", "T": r"\text{T}", "F": r"\text{F}"}.get(mantissa, mantissa)
    if exponent is None:
        return sign + mantissa
    return sign + (f"10^{{{exponent}}}" if mantissa == "1" else rf"{mantissa} \times 10^{{{exponent}}}")


def decimal_of(value) -> float:
    """An exact number's nearest float (NaN for an expression with unknowns); floats pass through."""
    if not is_exact(value):
        return float(value)
    evaluated = value.evalf(20)
    return float(evaluated) if evaluated.is_real and not evaluated.free_symbols else math.nan


def _is_decimal(value, digits) -> bool:
    """Whether an exact number is a decimal of so many places: 1/2 is, 1/3 and √2 are not."""
    return bool(getattr(value, "is_Rational", False)) and (value * 10**digits).is_Integer


def significant(value, figures: int = 4) -> str:
    """`value` with so many significant figures, fixed down to 1e-4 and scientific below: 0.005191, 1.747e-7."""
    return TEXT.significant(value, figures)


@dataclass(frozen=True)
class Form:
    """One of the two forms in which a line of arithmetic goes out, LATEX and TEXT.

    A line is built once, by a function of its form; where the two differ, form(latex, text) picks one.
    """

    is_latex: bool

    def __call__(self, latex: str, text: str) -> str:
        return latex if self.is_latex else text

    @property
    def dots(self) -> str:
        """For what is left out in a line."""
        return self(r"\cdots", "…")

    def number(self, value, digits: int = 3, scale: float | None = None, pad: int = 0) -> str:
        return (latex if self.is_latex else text)(value, digits, scale, pad)

    def factor(self, value, digits: int = 3, scale: float | None = None) -> str:
        """A number in brackets where a sign or a sum would be misread after a dot or a plus."""
        shown = self.number(value, digits, scale)
        if shown.startswith("-") or is_exact(value) and getattr(value, "is_Add", False):
            return self(rf"\left({shown}\right)", f"({shown})")
        return shown

    def decimal(self, value, digits: int = 3) -> str:
        r"""'\tanh{\left(\sqrt{2} \right)} \approx 0.888': an exact number and its decimal; a plain number alone."""
        decimal = decimal_of(value)
        if not is_exact(value) or getattr(value, "is_Integer", False) or not math.isfinite(decimal):
            return self.number(value, digits)
        equals = "=" if _is_decimal(value, digits) else self(r"\approx", "≈")
        return f"{self.number(value, digits)} {equals} {self.number(decimal, digits)}"

    def significant(self, value, figures: int = 4) -> str:
        """A number with so many significant figures, see `significant`."""
        size = abs(decimal_of(value))
        places = figures
        if math.isfinite(size) and size > 0:
            magnitude = math.floor(math.log10(size))
            places = max(figures - 1 - magnitude, 0) if magnitude >= -4 else figures
        return self.number(value, min(places, 30), 0.0)

    def entries(self, array: np.ndarray, digits: int = 3, scale: float | None = None) -> np.ndarray:
        """Every entry of an array as a string, all with the same places; the strings have the array's shape."""
        scale, pad = scale_of(array) if scale is None else scale, places_of(array, checked_digits(digits))
        shown = np.empty(array.shape, dtype=object)
        for place in np.ndindex(array.shape):
            shown[place] = self.number(array[place], digits, scale, pad)
        return shown

    def row(self, values, digits: int = 3, limit: int | None = TERMS_SHOWN, scale: float | None = None) -> str:
        """A vector in square brackets."""
        shown = self.entries(values, digits, scale)
        return self(r"\left[", "[") + self.joined(shown.__getitem__, len(values), limit, self(r",\; ", ", ")) + self(r"\right]", "]")

    def joined(self, write: Callable[[int], str], length: int, limit: int | None = TERMS_SHOWN, between: str = " + ") -> str:
        """write(0) + write(1) + …, with dots in the middle when it is long."""
        return between.join(self.dots if k is GAP else write(k) for k in kept(length, limit))

    def name(self, name: str) -> str:
        return (name_latex if self.is_latex else name_text)(name)

    def label(self, label) -> str:
        return label_latex(label) if self.is_latex else str(label)


LATEX, TEXT = Form(True), Form(False)


def kept(length: int, limit: int | None, ends: int = KEPT) -> list[int | None]:
    """Indices to show of `length`: all, or both ends with GAP (None) between."""
    if limit is not None:
        ends = min(ends, max(limit // 2, 1))
    if limit is None or length <= max(limit, 2 * ends):
        return list(range(length))
    return [*range(ends), GAP, *range(length - ends, length)]


def as_array(value, name: str = "array") -> np.ndarray:
    """A NumPy array of numbers from a list, an array, a torch tensor or a SymPy matrix (then with object entries).

    Raises ValueError naming `name` when the entries are not real numbers or the rows differ in length.
    """
    if hasattr(value, "detach"):  # a torch tensor, recognised without importing torch
        value = value.detach().cpu()
        value = (value.float() if "bfloat16" in str(value.dtype) else value).numpy()
    elif is_exact(value) and hasattr(value, "tolist"):
        value = np.array(value.tolist(), dtype=object).reshape(value.shape)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} was a list with rows of different lengths; it must be rectangular") from error
    if array.dtype.kind in "biuf":
        return array
    if array.dtype == object and all(is_exact(x) or isinstance(x, (numbers.Real, np.bool_)) for x in array.ravel()):
        return array
    raise ValueError(f"{name} had entries of type {array.dtype}; it must hold real numbers")


def as_floats(value, name: str = "array") -> np.ndarray:
    """as_array with float entries: exact numbers as their decimals."""
    array = as_array(value, name)
    if array.dtype == object:
        return np.array([decimal_of(x) for x in array.ravel()], dtype=float).reshape(array.shape)
    return array.astype(float)


def scale_of(array: np.ndarray) -> float:
    """The largest finite magnitude in an array, but at least 1e-3: what is far below it is shown as 0."""
    values = np.abs(as_floats(array).ravel())
    values = values[np.isfinite(values)]
    return max(float(values.max()), SMALLEST_SCALE) if values.size else SMALLEST_SCALE


def checked_digits(digits) -> int:
    if isinstance(digits, bool) or not isinstance(digits, numbers.Integral) or not 0 <= digits <= 30:
        raise ValueError(f"digits was {digits!r}; it must be a whole number from 0 to 30")
    return int(digits)


def checked_labels(argument: str, labels: Iterable | None, n: int) -> list | None:
    """The labels as a list of n; None where there are none."""
    labels = None if labels is None else list(labels)
    if labels is not None and len(labels) != n:
        raise ValueError(f"{argument} had {len(labels)} labels; there must be {n}")
    return labels


def _parts(value, digits, scale, pad) -> tuple[str, str, int | None]:
    """Sign, mantissa and power of ten (None in fixed notation)."""
    digits = checked_digits(digits)
    if isinstance(value, (bool, np.bool_)):
        return "", "T" if value else "F", None
    if isinstance(value, numbers.Integral) and not isinstance(value, np.floating):
        return ("-" if value < 0 else ""), str(abs(int(value))), None
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, numbers.Real):
        raise ValueError(f"value was {value!r} of type {type(value).__name__}; it must be one real number")
    number = float(value)
    if math.isnan(number):
        return "", "nan", None
    sign = "-" if number < 0 else ""
    if math.isinf(number):
        return sign, "∞", None
    if abs(number) <= _leftover(value) * (SMALLEST_SCALE if scale is None else scale):
        return "", "0", None
    return sign, *_rounded(abs(number), digits, _trusted(value), pad)


def _leftover(value) -> float:
    return {np.float32: 2e-7, np.float16: 1e-3}.get(type(value), LEFTOVER)


def _trusted(value) -> int:
    """Significant figures that a number of this type holds safely."""
    return {np.float32: 6, np.float16: 3}.get(type(value), 12)


def _snapped(number: float, digits: int, trusted: int) -> Decimal:
    """A positive number without its last, untrusted figures: 0.06249999999999999 is 0.0625 again."""
    figures = max(trusted, digits + 1 + max(math.floor(math.log10(number)), 0))
    return Decimal(f"{number:.{figures - 1}e}")


def _rounded(number: float, digits: int, trusted: int, pad: int) -> tuple[str, int | None]:
    """A positive number's mantissa and power of ten; at least `pad` places, unless it is whole."""
    snapped = _snapped(number, digits, trusted)
    if Decimal(10) ** -digits <= snapped < Decimal(LARGEST_FIXED) or digits == 0 and Decimal("0.5") <= snapped < 1:
        return _fixed(snapped, digits, pad), None
    exponent = snapped.adjusted()
    places = max(digits - 1, 0)
    mantissa = snapped.scaleb(-exponent)
    if mantissa.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP) >= 10:  # 9.996 would become 10.00
        mantissa, exponent = Decimal(1), exponent + 1
    return _fixed(mantissa, places, 0), exponent


def _fixed(number: Decimal, digits: int, pad: int) -> str:
    """At most `digits` places; zeros at the end stay only where the number was rounded, or up to `pad` places."""
    if number == number.to_integral_value():
        return f"{int(number)}"
    shown = number.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    if shown != number:
        return f"{shown:f}"
    return f"{shown.quantize(Decimal(1).scaleb(-max(pad, places_needed(number)))):f}"


def places_needed(number: Decimal) -> int:
    """Places after the point that write a decimal number in full."""
    return max(-number.normalize().as_tuple().exponent, 0)


def places_of(array: np.ndarray, digits: int = 3) -> int:
    """The fewest places, at most `digits`, that show every entry of an array as exactly as `digits` places do."""
    scale, needed = scale_of(array), 0
    for value in array.ravel():
        if is_exact(value) or isinstance(value, (numbers.Integral, np.bool_)):
            continue
        number = abs(float(value))
        if math.isfinite(number) and max(10.0**-digits, _leftover(value) * scale) < number < LARGEST_FIXED:
            needed = max(needed, places_needed(_snapped(number, digits, _trusted(value))))
        if needed >= digits:
            return digits
    return needed


def printed_decimal(figure: str) -> Decimal:
    """A figure as a document prints it: '0.944', '−0.853', '37,000', '1.75e-7', '1.75 × 10^-7', '94.4 %' (which is 94.4)."""
    plain = re.sub(r"[,\s%]", "", re.sub(r"\s*[×·x]\s*10\^", "e", str(figure).replace("−", "-")))
    try:
        return Decimal(plain)
    except ArithmeticError:
        raise ValueError(f"claimed was {figure!r}; it must be a number as printed, such as '0.944' or '1.75e-7'") from None


def printed_places(figure: str) -> int:
    """Places after the point of a printed figure (its power of ten counted in)."""
    return max(-printed_decimal(figure).as_tuple().exponent, 0)


def rounded_like(figure: str, value) -> Decimal:
    """A number rounded to the last place of a printed figure, halves away from zero."""
    number = decimal_of(value)
    if not math.isfinite(number):
        raise ValueError(f"computed was {number}; it must be finite to be compared with a print")
    snapped = Decimal(0) if abs(number) <= LEFTOVER * SMALLEST_SCALE else Decimal(f"{number:.11e}")
    return snapped.quantize(Decimal(1).scaleb(printed_decimal(figure).as_tuple().exponent), rounding=ROUND_HALF_UP) + 0


def rounds_half_up(value, figure: str) -> bool:
    """Whether a number, rounded to the last place of a printed figure, is the figure. −0 is 0."""
    return rounded_like(figure, value) == printed_decimal(figure)


_GREEK = (
    "alpha beta gamma delta epsilon eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega"
).split()
_TEXT_SYMBOLS = {r"\cdot": "·", r"\hat": "", r"\partial": "∂", r"\top": "T", r"\,": " ", r"\mathrm": ""} | {f"\\{g}": g for g in _GREEK}
_SPECIAL = {"\\": r"\backslash ", "{": r"\{", "}": r"\}", "$": r"\$", "%": r"\%", "#": r"\#", "&": r"\&", "_": r"\_", "^": r"\hat{\ }", "~": r"\sim "}


def label_latex(label) -> str:
    r"""A token or another plain label: '<bos>' as '\text{<bos>}'. A number stays a number."""
    if isinstance(label, numbers.Integral):
        return str(int(label))
    return _in_font(r"\text", str(label))


def _in_font(font: str, words: str) -> str:
    """Words in a text font; special characters stand outside it, where every version of MathJax reads them alike."""
    parts = re.split(r"([\\{}$%#&_^~])", words)
    return "".join(_SPECIAL[part] if part in _SPECIAL else f"{font}{{{part}}}" for part in parts if part)


def name_latex(name: str) -> str:
    r"""A name in LaTeX: 'X', 'W_Q', 'dW_1', 'X^T', 'U^+', 'dDEC_2' as symbols, 'gamma' as γ, a dotted name in typewriter; LaTeX passes through."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name was {name!r}; it must be a non-empty string")
    if "\\" in name or "{" in name:
        return name
    if name in _GREEK:
        return "\\" + name
    match = re.fullmatch(r"(d?)([A-Za-z]|[A-Z]{3,}|" + "|".join(_GREEK) + r")(?:_(\w+))?(\^T|\^\+|\^\d+|')?", name)
    if match:
        d, symbol, below, above = match.groups()
        symbol = "\\" + symbol if symbol in _GREEK else rf"\text{{{symbol}}}" if len(symbol) > 2 else symbol
        below = "" if below is None else "_{" + (below if len(below) == 1 or below.isdigit() else rf"\text{{{below}}}") + "}"
        above = r"^\top" if above == "^T" else (above or "")
        return f"{d}{symbol}{below}{above}"
    if re.fullmatch(r"[A-Z](\^T)?[A-Z](\^T)?", name):  # a product of two matrices: QK^T, AV
        return name.replace("^T", r"^\top ").strip()
    return _in_font(r"\texttt", name) if "." in name else label_latex(name)


def name_text(name: str) -> str:
    """A name without LaTeX, for the terminal."""
    for symbol, plain in _TEXT_SYMBOLS.items():
        name = name.replace(symbol, plain)
    return name.replace("{", "").replace("}", "").replace("\\", "").strip()
