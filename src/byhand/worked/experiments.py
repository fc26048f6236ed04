"""Two experiments that run in the page itself, without a kernel and without a network.

Each is one HTML output: a table that stands there in any case, and a script that adds sliders and keeps the table up to date. It works
in the built site, opened from a file too, and in JupyterLab; a viewer that runs no scripts shows the table at the first settings.
"""

import html
import json
import math
import numbers
from collections.abc import Sequence
from importlib.resources import files

import numpy as np
from jaxtyping import Float

from byhand.numpy.attention import attention

Array = np.ndarray


CONTROLS = '<div class="controls" hidden></div>\n'  # where the script puts its sliders and fields


class Experiment:
    """A table and its summary as HTML, the same as text, and the script that drives them."""

    name = ""  # of the script and of the HTML class

    def settings(self) -> dict:
        """What the script starts from."""
        raise NotImplementedError

    def body(self) -> str:
        """The HTML that stands there without a script too, with CONTROLS in it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        style, shared, script = (_data(name) for name in ("experiments.css", "experiments.js", f"{self.name}.js"))
        settings = html.escape(json.dumps(self.settings(), ensure_ascii=False))
        return (
            f'<div class="byhand-experiment {self.name}" data-settings="{settings}">\n<style>\n{style}</style>\n'
            f"{self.body()}\n</div>\n"
            f"<script>\n(() => {{\n{shared}\n{script}}})();\n</script>"
        )


def scrolling_table(head: list[str], rows: str, caption: str = "") -> str:
    """An HTML table in a box of its own; rows are its body's."""
    above = f"<caption>{caption}</caption>\n" if caption else ""
    cells = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    return f'<div class="scroll byhand-output"><table>\n{above}<thead><tr>{cells}</tr></thead>\n<tbody>{rows}</tbody>\n</table></div>'


class AttentionTable(Experiment):
    """A = softmax_rows(q kᵀ / (√d_k · temperature)) with the future hidden,  y = A v: weights and mixed values, with a temperature slider.

    tokens name the rows; q and k are (time, d_k), v is (time, d_v). The defaults are document 2's: its last row is the
    worked query [1, 0], and the query of `cat` is [0, 1], as its printed 33.0 % and 67.0 % imply. The first query may be anything.
    Raises ValueError for a temperature that is not above 0 and for shapes that do not fit.
    """

    name = "attention-table"

    def __init__(
        self,
        tokens: tuple[str, ...] = ("The", "cat", "sat"),
        q: Float[Array, "time d_k"] = ((1, 1), (0, 1), (1, 0)),
        k: Float[Array, "time d_k"] = ((1, 0), (0, 1), (1, 1)),
        v: Float[Array, "time d_v"] = ((1, 0), (0, 2), (2, 1)),
        temperature: float = 1.0,
    ):
        self.tokens = tuple(tokens)
        self.q, self.k, self.v = (_matrix(name, value, len(self.tokens)) for name, value in (("q", q), ("k", k), ("v", v)))
        if self.q.shape[1] != self.k.shape[1]:
            raise ValueError(f"k had width {self.k.shape[1]}; it must be q's, {self.q.shape[1]}")
        self.temperature = _temperature(temperature)

    def attend(self, temperature: float | None = None) -> tuple[Float[Array, "time time"], Float[Array, "time d_v"]]:
        """The weights and the mixed values at a temperature."""
        t = self.temperature if temperature is None else _temperature(temperature)
        mixed, cache = attention(self.q[None, None] / t, self.k[None, None], self.v[None, None], causal=True)
        return cache.weights[0, 0], mixed[0, 0]

    def settings(self) -> dict:
        return {"tokens": self.tokens, "q": self.q.tolist(), "k": self.k.tolist(), "v": self.v.tolist(), "temperature": self.temperature}

    def body(self) -> str:
        weights, mixed = self.attend()
        rows = ""
        for i, token in enumerate(self.tokens):
            seen = "".join(f'<td class="weight" style="--w:{w:.3f}">{_percent(w)}</td>' for w in weights[i, : i + 1])
            masked = '<td class="masked"><span aria-hidden="true">—</span><span class="spoken">masked</span></td>' * (len(self.tokens) - i - 1)
            rows += f'<tr><th scope="row">{html.escape(token)}</th>{seen}{masked}<td class="mixed">{_vector(mixed[i])}</td></tr>\n'
        vectors = "".join(
            f'<tr><th scope="row">{html.escape(token)}</th>' + "".join(f"<td>{_short(row[i])}</td>" for row in (self.q, self.k, self.v)) + "</tr>\n"
            for i, token in enumerate(self.tokens)
        )
        head = ["query", *map(html.escape, self.tokens), "mixed value"]
        return (
            f"{CONTROLS}{scrolling_table(head, rows, 'How much each query (row) takes from each key (column)')}\n"
            f'<p class="result" role="status">{self._result(weights, mixed)}</p>\n'
            f"<details><summary>The vectors</summary>{scrolling_table(['token', 'query', 'key', 'value'], vectors)}</details>"
        )

    def _result(self, weights, mixed):
        shares = ", ".join(f"{_percent(w)} from {html.escape(token)}" for w, token in zip(weights[-1], self.tokens, strict=True))
        last = html.escape(self.tokens[-1])
        return f"At temperature {_significant(self.temperature)}, {last} takes {shares}: mixed value {_vector(mixed[-1])}."

    def __repr__(self) -> str:
        weights, mixed = self.attend()
        width = max(6, *map(len, self.tokens))
        lines = [f"Attention weights at temperature {_significant(self.temperature)}, and mixed values"]
        lines.append(" " * width + "".join(f"  {token:>{max(8, width)}}" for token in self.tokens))
        for i, token in enumerate(self.tokens):
            shares = [_percent(w) if j <= i else "—" for j, w in enumerate(weights[i])]
            lines.append(f"{token:<{width}}" + "".join(f"  {share:>{max(8, width)}}" for share in shares) + f"  {_vector(mixed[i])}")
        return "\n".join(lines)


class DepthPlot(Experiment):
    """|a|^L and |1 + a|^L: what is left of a gradient after L equal layers, direct and with residual paths, with sliders for a and L.

    The vertical axis is log₁₀ of the gain, clipped to `clip`; a gain of 0 lies on its lower end. The defaults are document 2's.
    Raises ValueError for a outside [-2, 2] or finer than hundredths, L outside 1 ... 200, or a clip that is not two rising whole numbers around 0.
    """

    name = "depth-plot"

    def __init__(self, a: float = -0.1, L: int = 12, clip: tuple[int, int] = (-18, 12)):
        if not isinstance(a, numbers.Real) or not -2 <= a <= 2 or round(a, 2) != a:
            raise ValueError(f"a was {a}; it must be a number in [-2, 2] with at most two decimals, as the slider moves")
        if not isinstance(L, numbers.Integral) or not 1 <= L <= 200:
            raise ValueError(f"L was {L}; it must be a whole number from 1 to 200")
        if len(clip) != 2 or not all(isinstance(end, numbers.Integral) for end in clip) or not clip[0] < 0 < clip[1]:
            raise ValueError(f"clip was {clip}; it must be two whole numbers, one below and one above 0")
        self.a, self.L, self.clip = float(a), int(L), tuple(map(int, clip))

    def gains(self, depth: int | None = None) -> tuple[float, float]:
        """|a|^depth and |1 + a|^depth."""
        depth = self.L if depth is None else depth
        return abs(self.a) ** depth, abs(1 + self.a) ** depth

    def height(self, gain: float) -> float:
        """log₁₀ of a gain, clipped: where it lies on the vertical axis."""
        low, high = self.clip
        return min(max(math.log10(gain), low), high) if gain > 0 else float(low)

    def settings(self) -> dict:
        return {"a": self.a, "L": self.L, "clip": self.clip}

    def depths(self) -> list[int]:
        """The depths that the table shows: five steps from 0 to L."""
        return sorted({(self.L * step + 2) // 4 for step in range(5)})

    def body(self) -> str:
        rows = "".join(f'<tr><th scope="row">{n}</th>' + "".join(f"<td>{_gain(g)}</td>" for g in self.gains(n)) + "</tr>\n" for n in self.depths())
        direct, residual = self.gains()
        return (
            f'{CONTROLS}<div class="plot" hidden></div>\n<p class="result" role="status">With <i>a</i> = {self.a:.2f}, after {self.L} layers: '
            f'<span class="direct"><span aria-hidden="true">- - </span>direct chain |<i>a</i>|<sup>L</sup> = {_gain(direct)}</span>, '
            f'<span class="residual"><span aria-hidden="true">— </span>residual chain |1+<i>a</i>|<sup>L</sup> = {_gain(residual)}</span>.</p>\n'
            f"<details open><summary>As a table</summary>{scrolling_table(['layers', 'direct', 'residual'], rows)}</details>"
        )

    def __repr__(self) -> str:
        lines = [f"Gain of a gradient at a = {self.a:.2f}", f"{'layers':>6}  {'|a|^L':>10}  {'|1+a|^L':>10}"]
        return "\n".join(lines + [f"{n:>6}  {_gain(direct):>10}  {_gain(residual):>10}" for n in self.depths() for direct, residual in [self.gains(n)]])


class TrainingCourse(Experiment):
    """A training run behind a slider: the probabilities of the next word as bars, the loss, and one weight with its gradient, at stored steps.

    steps: rising, (n,); probabilities: (n, words); losses, weight, gradient: (n,). wanted: the right word. Numbers are kept to three places.
    Raises ValueError for shapes that do not fit and for a wanted word that is none of words.
    """

    name = "training-course"

    def __init__(self, words: Sequence[str], wanted: str, steps: Array, probabilities: Array, losses: Array, weight: Array, gradient: Array):
        self.words, self.wanted, self.steps = tuple(words), wanted, [int(step) for step in steps]
        n = len(self.steps)
        if wanted not in self.words:
            raise ValueError(f"wanted was {wanted!r}; it must be one of {', '.join(self.words)}")
        if not n or any(b <= a for a, b in zip(self.steps, self.steps[1:])):
            raise ValueError("steps must be rising whole numbers, at least one")
        arrays = {"probabilities": (probabilities, (n, len(self.words))), "losses": (losses, (n,)), "weight": (weight, (n,)), "gradient": (gradient, (n,))}
        for name, (array, shape) in arrays.items():
            if np.shape(array) != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} had shape {np.shape(array)}; it must have shape {shape} and finite entries")
        self.p, self.losses, self.weight, self.gradient = ((np.round(array, 3) + 0.0).tolist() for array, _ in arrays.values())

    def settings(self) -> dict:
        return {"steps": self.steps, "p": self.p, "loss": self.losses, "w": self.weight, "g": self.gradient}

    def body(self) -> str:
        bars = "".join(
            f'<tr{self._mark(word)}><th scope="row">{html.escape(word)}</th>'
            f'<td><i style="width:{100 * p:.1f}%"></i></td><td class="share">{_percent(p)}</td></tr>\n'
            for word, p in zip(self.words, self.p[0], strict=True)
        )
        return (
            f"{CONTROLS}<style>{_BARS}</style>\n"
            f'<table class="bars"><caption>What the model gives each word as the next one</caption>\n<tbody>{bars}</tbody></table>\n'
            f'<p class="result" role="status">{self._result()}</p>'
        )

    def _mark(self, word):
        return ' class="wanted"' if word == self.wanted else ""

    def _result(self):
        return (
            f"Step {self.steps[0]}: loss {self.losses[0]:.3f}. One of the weights is {_signed(self.weight[0])}, its gradient {_signed(self.gradient[0], '+')}."
        )

    def __repr__(self) -> str:
        rows = zip(self.words, self.p[0], self.p[-1], strict=True)
        lines = [f"{word:<6}  {_percent(first):>7}  {_percent(last):>7}" + "  (the right word)" * (word == self.wanted) for word, first, last in rows]
        return "\n".join([f"Probability of the next word at step {self.steps[0]} and at step {self.steps[-1]}", *lines, self._result()])


_BARS = (
    ".byhand-experiment table.bars{width:100%}.byhand-experiment .bars :is(th,td){border:0!important;padding:.2rem .5rem;background:none!important}"
    ".byhand-experiment .bars th{width:4.5rem;text-align:left!important;font-weight:400}.byhand-experiment .bars .share{width:5rem}"
    ".byhand-experiment .bars i{display:block;height:1.3rem;background:var(--direct);opacity:.55}"
    ".byhand-experiment .bars .wanted i{background:var(--residual);opacity:.85}.byhand-experiment .bars .wanted th{font-weight:700}"
)


def _signed(value, plus=""):
    return f"{value:{plus}.3f}".replace("-", "\N{MINUS SIGN}")


def _data(name):
    return (files("byhand") / "worked" / name).read_text("utf-8")


def _matrix(name, value, rows):
    array = np.array(value, dtype=float)
    if array.ndim != 2 or len(array) != rows or not array.size:
        raise ValueError(f"{name} had shape {array.shape}; it must be ({rows}, width), one row for each token")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} held a value that is not finite; every entry must be a finite number")
    return array


def _temperature(value):
    if not isinstance(value, numbers.Real) or not 0 < value < math.inf:
        raise ValueError(f"temperature was {value}; it must be a finite number above 0")
    return float(value)


# Written as the scripts write them, so that the first drawing changes nothing.
def _percent(weight):
    return f"{100 * weight:.1f}\N{NO-BREAK SPACE}%"


def _vector(values):
    return f"[{', '.join(f'{value:.6f}' for value in values)}]"


def _short(values):
    return f"[{', '.join(f'{value:g}' for value in values)}]"


def _significant(value):
    """Three significant digits."""
    return f"{value:#.3g}".rstrip(".")


def _gain(value):
    """2.824e-1: four significant digits, and the exponent without padding."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{mantissa}e{int(exponent):+d}"
