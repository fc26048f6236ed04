"""Mistake × witness: which of the independent checks notices which planted mistake, and whether the model learns in spite of it."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

import numpy as np

from byhand import toy
from byhand.check.compare import compare
from byhand.check.derivatives import directional_difference
from byhand.check.invariants import invariants
from byhand.check.measure import agreement
from byhand.check.mine import mine as check_mine
from byhand.check.mistakes import MISTAKES, Mistake
from byhand.check.report import Report, Row
from byhand.numpy import decoder, loss, optimizer, step, transformer
from byhand.toy import tied_stack, uneven

from .parts import PARTS

# What a witness says of one mistake: "" where it notices nothing, words where it does, None where it cannot look.
Look = Callable[[Mistake, Mapping[str, toy.Case]], str | None]

NEAR = 0.1  # how far above where it ends without a mistake the loss may be after `training`, which starts 1.5 to 2.7 above its floor
STORED = Path(__file__).with_name("kill_matrix.json")
BOUNDS = {"PyTorch": 1e-10, "SymPy": 1e-12, "central differences": 1e-6}
# What SymPy looks at, and the ends of the parameters' names: all in `lively`; an entry of the others takes half a second
_DEEP = ("embedding", "attention.w_q", "0.feed_forward.b_1")
EXACTLY = {
    "lively": ("",), "uneven, tied": ("output.b", "1.norm_1.gamma", *_DEEP), "stack": ("0.norm_1.gamma", "0.feed_forward.w_3", *_DEEP[1:]),
    "stack, tied": ("embedding", "0.feed_forward.b_1"),
}  # fmt: skip


def cases() -> dict[str, toy.Case]:
    """The models that the mistakes are looked for on: every width, length and layer that could hide one differs from the others somewhere."""
    return {
        "document": toy.document(), "lively": toy.lively(), "uneven": uneven(), "uneven, tied": uneven(tied=True),
        "stack": toy.decoder(), "stack, tied": tied_stack(),
    }  # fmt: skip


# ---- the witnesses ------------------------------------------------------------------------------


def by_running(mistake: Mistake, running: Mapping[str, toy.Case]) -> str:
    """Unequal lengths and widths: does it run at all?"""
    for name, case in cases().items():
        if name not in running:
            try:
                step.run(case)
            except (ValueError, IndexError) as error:
                return f"{name}: {type(error).__name__}"
    return ""


def by_pytorch(mistake: Mistake, running: Mapping[str, toy.Case]) -> str | None:
    """Logits, every parameter's gradient, and four steps of torch.optim.Adam."""
    if mistake.kind == "optimizer":
        return _adam_differs(_adam_by_pytorch(), BOUNDS["PyTorch"])
    for name, case in running.items():
        run, (activations, _, grads) = step.run(case), _torch_step(name)
        for what, mine, right in (("logits", run.output.logits, activations["logits"]), ("gradients", run.gradients.params, grads)):
            if agreement(mine, right) > BOUNDS["PyTorch"]:
                return f"{what} of {name}"
    return ""


def by_sympy(mistake: Mistake, running: Mapping[str, toy.Case]) -> str | None:
    """Two entries of every parameter's gradient on `lively`, by the whole-network witness; Adam's four steps exactly."""
    if mistake.kind == "optimizer":
        return _adam_differs(_adam_by_sympy(), BOUNDS["SymPy"])
    for name in [name for name in EXACTLY if name in running] + ["document"] * ("lively" not in running and "document" in running):
        grads = step.run(running[name]).gradients.params
        for parameter, entries in _sympy_entries(name).items():
            if agreement([grads[parameter][place] for place in entries], list(entries.values())) > BOUNDS["SymPy"]:
                return f"{parameter} of {name}"
    return ""


def by_central_differences(mistake: Mistake, running: Mapping[str, toy.Case]) -> str | None:
    """The loss itself, moved along two random directions for every parameter."""
    if mistake.kind == "optimizer":
        return None
    if mistake.kind == "forward":  # the loss itself has changed, and its slopes take seconds: one model that shows it will do
        running = {name: case for name, case in running.items() if _shows(mistake, name, running)}
        running = dict(sorted(running.items(), key=lambda item: item[0] != "uneven")[:1])
    for name, case in running.items():
        grads = step.run(case).gradients.params
        slopes = _slopes(case) if mistake.kind == "forward" else _right_slopes(name)
        for parameter, along in slopes.items():
            mine = [float((grads[parameter] * direction).sum()) for direction in _directions(case, parameter)]
            scale = np.abs(grads[parameter]).max()
            if agreement([*mine, scale], [*along, scale]) > BOUNDS["central differences"]:
                return f"{parameter} of {name}"
    return ""


def by_invariants(mistake: Mistake, running: Mapping[str, toy.Case]) -> str | None:
    """check.invariants: what must hold without any reference."""
    if mistake.kind == "optimizer":
        return None
    for case in running.values():
        report = invariants(case.params, case.config, case)
        if not report:
            return report.failures[0].name
    return ""


def by_comparison(mistake: Mistake, running: Mapping[str, toy.Case]) -> str | None:
    """check.compare with PyTorch, stage by stage: which is the first to differ, and how."""
    if mistake.kind == "optimizer":
        return None
    for name in sorted(running, key=lambda name: name != "lively"):
        run, (activations, stages, grads) = step.run(running[name]), _torch_step(name)
        pairs = ((run.output.activations, activations), (run.gradients.stages, stages), (run.gradients.params, grads))
        for mine, right in pairs:
            first = compare(mine, right).first
            if first:
                return f"{first.name}: {first.how}"
    return ""


def by_changing(mistake: Mistake, running: Mapping[str, toy.Case]) -> str | None:
    """The future changed, and the padding: neither may be seen by what comes before, or stands outside."""
    if mistake.kind == "optimizer":
        return None
    for name, case in running.items():
        before, padded = _logits(case), case.source_lengths if case.source is not None else case.target_lengths
        last = case.decoder_input.shape[1] - 1
        future = case.decoder_input.copy()
        future[:, last] = (future[:, last] + 1) % case.config.target_vocab
        if (_logits(case, decoder_input=future)[:, :last] != before[:, :last]).any():
            return f"{name}: the future is seen"
        if padded is not None:
            argument, vocab = ("decoder_input", case.config.target_vocab) if case.source is None else ("source", case.config.source_vocab)
            tokens = getattr(case, argument)
            outside = np.arange(tokens.shape[1]) >= padded[:, None]
            moved = _logits(case, **{argument: np.where(outside, (tokens + 1) % vocab, tokens)}) != before
            if moved[~outside if case.source is None else ...].any():
                return f"{name}: the padding is seen"
    return ""


def by_definition(mistake: Mistake, running: Mapping[str, toy.Case]) -> None:
    """What stands around a step, by its definition, or by another part of the package (parts.py)."""


WITNESSES: dict[str, Look] = {
    "runs": by_running,
    "PyTorch": by_pytorch,
    "SymPy": by_sympy,
    "central differences": by_central_differences,
    "invariants": by_invariants,
    "comparison": by_comparison,
    "future and padding": by_changing,
    "definition": by_definition,
}


# ---- the matrix ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class KillRow(Row):
    """seen: by witness, what it noticed, "" for nothing, None where it cannot look.

    hidden       on `document` alone, PyTorch's comparison would have passed
    trained_on   the case on which it was trained with the mistake: the first of lively, the uneven ones and document that the mistake
                 changes and that still runs
    learns       the loss came within 0.1 of where it ends without the mistake; None where no step shows the mistake, or nothing was trained
    above_floor  how near it came to its floor, the entropy of the smoothed target
    named        what check.mine calls it, from the arrays of a step alone: "" where another name, or none, comes first; None where it was not asked
    """

    kind: str = ""
    part: str = "step"
    seen: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    hidden: bool = False
    trained_on: str = ""
    learns: bool | None = None
    above_floor: float = float("nan")
    named: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class KillMatrix(Report):
    """One row for each mistake: a cell is empty where the witness notices nothing."""

    witnesses: tuple[str, ...] = ()

    def header(self):
        alone = ["on `document` alone"] if "PyTorch" in self.witnesses else []
        return ["mistake", *self.witnesses, *["named"] * self._asked, *alone, "training"]

    @property
    def _asked(self):
        return any(row.named is not None for row in self.rows)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self):
        """Narrow columns under upright headings; a filled circle where the mistake is caught, an open one where `document` hides it."""
        base = "padding:.2rem .35rem;border-bottom:1px solid rgba(128,128,128,.45);background:none;color:inherit;text-align:left;"
        upright = "writing-mode:vertical-rl;transform:rotate(180deg);white-space:nowrap"
        kinds = (("caught", "●"), ("hidden", "○"), ("named", "★"), ("in a group", "☆"), ("a convention", "≈"))
        signs = {name: f'<span role="img" aria-label="{name}">{sign}</span>' for name, sign in kinds}
        first, *others = (escape(name.replace("`", "")) for name in self.header())
        heads = [first, *(f'<span style="{upright}">{name}</span>' for name in others)]
        head = "".join(f'<th scope="col" style="{base}vertical-align:bottom">{name}</th>' for name in heads)
        lines = []
        for name, *cells in map(self.cells, self.rows):
            cells = "".join(f'<td style="{base}">{signs.get(content, content)}</td>' for content in cells)
            lines.append(f'<tr><th scope="row" style="{base}font-weight:normal;min-width:10rem">{escape(name)}</th>{cells}</tr>')
        return (
            f'<div class="byhand-output tex2jax_process" tabindex="0" style="overflow-x:auto;max-width:100%">\n<p>{escape(self.title)}</p>\n'
            f'<table style="border-collapse:collapse;width:auto;margin:.4rem 0;color:inherit;background:none">\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>{chr(10).join(lines)}</tbody>\n</table>\n</div>"
        )

    def only(self, *kinds: str, step: bool = True) -> "KillMatrix":
        """The rows of these kinds of mistake, in a training step or around it."""
        rows = tuple(row for row in self.rows if row.kind in kinds and (row.part not in PARTS) == step)
        return KillMatrix(_title(rows), rows, self.witnesses)

    def by_witness(self) -> "WitnessTable":
        """How many mistakes each witness catches, and which it lets pass."""
        return WitnessTable("What each witness catches", tuple(self._witness(name) for name in self.witnesses))

    def _witness(self, name):
        looked = [row for row in self.rows if row.seen[name] is not None]
        missed = [row.name for row in looked if not row.seen[name]]
        return Row(name, not missed, len(missed), "; ".join(missed), f"{len(looked) - len(missed)} of {len(looked)}")

    def data(self) -> list[dict]:
        """The matrix as plain data, which `stored` reads."""
        keys = ("name", "kind", "part", "seen", "hidden", "trained_on", "learns", "named")
        return [{key: getattr(row, key) for key in keys} for row in self.rows]

    def cells(self, row):
        cells = ["—" if row.seen[name] is None else "caught" if row.seen[name] else "" for name in self.witnesses]
        alone = ["hidden" if row.hidden else ""] if "PyTorch" in self.witnesses else []
        named = ["—" if row.named is None else row.named] * self._asked
        return [row.name, *cells, *named, *alone, {True: "learns", False: "fails", None: "—"}[row.learns]]


class WitnessTable(Report):
    """One row for each witness; worst is the number of mistakes that it lets pass."""

    def header(self):
        return ["witness", "catches", "lets pass"]

    def cells(self, row):
        names = row.where.split("; ")
        return [row.name, row.verdict, "; ".join(names[:3]) + (f"; and {len(names) - 3} more" if len(names) > 3 else "")]


def stored() -> KillMatrix:
    """The whole matrix as it was last computed: `make kill-matrix` computes and stores it, and a test does so again and compares."""
    data = json.loads(STORED.read_text("utf-8"))
    rows = tuple(KillRow(holds=any(entry["seen"].values()), verdict=_verdict(entry["seen"]), **entry) for entry in data)
    return KillMatrix(_title(rows), rows, tuple(data[0]["seen"]))


def _verdict(seen):
    caught = [name for name, words in seen.items() if words]
    return f"caught by {', '.join(caught)}" if caught else "missed by all"


def _title(rows, trained=True):
    missed, learn = sum(not row.holds for row in rows), sum(row.learns is True for row in rows)
    trained = trained and any(row.learns is not None for row in rows)
    if len(rows) == 1:
        return ("missed by every witness" if missed else "caught") + ("; it trains all the same" if trained and learn else "")
    title = f"{len(rows)} mistakes: {f'{missed} missed by every witness' if missed else 'each is caught'}"
    return title + (f"; {learn} train all the same" if trained else "")


def kill_matrix(mistakes: Iterable[Mistake] | None = None, witnesses: Mapping[str, Look] | None = None, train: bool = True, name: bool = False) -> KillMatrix:
    """Plants each mistake in turn, asks every witness, and trains with it; with name=True check.mine is asked for its name, which takes a second each.

    A row holds where at least one witness notices. A witness looks at the cases on which the mistaken model still runs.
    """
    mistakes = list(MISTAKES.values() if mistakes is None else mistakes)
    witnesses = dict(WITNESSES if witnesses is None else witnesses)
    every = cases()
    rows = []
    for mistake in mistakes:
        _prepare(witnesses, train)  # the right answers, before anything is wrong
        with mistake.planted():
            if mistake.part in PARTS:
                rows.append(_row(mistake, {name: _ask(mistake.part, name) for name in witnesses}))
                continue
            running = {name: case for name, case in every.items() if _runs(case)}
            seen = {name: look(mistake, running) for name, look in witnesses.items()}
            shown = [name for name in (*list(every)[1:], "document") if _shows(mistake, name, running)]
            alone = {name: case for name, case in running.items() if name == "document" and any(every[other].source is not None for other in shown)}
            hidden = "PyTorch" in witnesses and mistake.kind != "optimizer" and not witnesses["PyTorch"](mistake, alone) and bool(alone)
            trained_on = shown[0] if shown else "lively"
            above = training(every[trained_on])[-1] - floor(every[trained_on]) if train else float("nan")
            learns = bool(above < NEAR + _right_end(trained_on)) if train else None
        named = named_by_mine(mistake, every[trained_on]) if name and shown else None
        rows.append(_row(mistake, seen, hidden, trained_on, learns, above, named))
    return KillMatrix(_title(rows, train), tuple(rows), tuple(witnesses))


def _row(mistake, seen, *trained):
    return KillRow(mistake.name, any(seen.values()), None, "", _verdict(seen), mistake.kind, mistake.part, seen, *trained)


def _ask(part, witness):
    """What a witness says of a mistake outside the training step; where the wrong code stops by itself, that is the first to notice."""
    looks = PARTS[part] if witness == "runs" else {witness: PARTS[part].get(witness)}
    for look in looks.values():
        try:
            words = look and look()
        except (ValueError, IndexError) as error:
            words = f"{part}: {type(error).__name__}" if witness == "runs" else None
            if words:
                return words
    return "" if witness == "runs" else words


def named_by_mine(mistake: Mistake, case: toy.Case) -> str:
    """What check.mine says from the arrays of a step with the mistake in it: "named" where it comes first, "in a group" beside others, or ""

    "a convention" where another convention gives the same numbers, so that it is none until the right one is stated.
    """
    verdict = check_mine(planted_step(case, mistake))
    findings = verdict.findings
    if verdict:
        return "a convention"
    causes = findings[0].cause if findings else ()
    return "" if mistake.name not in causes else "named" if len(causes) == 1 else "in a group"


def planted_step(case: toy.Case, mistake: Mistake, lr: float = 0.01, stages: bool = False) -> Callable:
    """A training step of a model like the case's, as a reader would hand it to check.mine: it returns arrays, and has the mistake in it."""

    def run(**batch):
        changed = dataclasses.replace(case, **batch)
        with mistake.planted():
            first = step.run(changed)
            found = dict(params=case.params, logits=first.output.logits, loss=first.loss, gradients=first.gradients.params)
            if all(grad.shape == case.params[name].shape for name, grad in first.gradients.params.items()):  # or there is no update
                after, state = optimizer.adam(case.params, first.gradients.params, lr=lr)
                second, _ = optimizer.adam(after, step.run(dataclasses.replace(changed, params=after)).gradients.params, state, lr=lr)
                found |= dict(params_1=after, params_2=second)
        return found | (dict(activations=first.output.activations) if stages else {})

    if case.source is None:
        return lambda tokens, targets, lengths=None: run(decoder_input=tokens, targets=targets, target_lengths=lengths)

    def of_pairs(source, decoder_input, targets, source_lengths=None, target_lengths=None):
        return run(source=source, decoder_input=decoder_input, targets=targets, source_lengths=source_lengths, target_lengths=target_lengths)

    return of_pairs


def floor(case: toy.Case) -> float:
    """The entropy of the smoothed target: the least that the loss can be."""
    q = loss.smoothed_targets(np.array(0), case.config.target_vocab, case.smoothing)
    return float(loss.entropy(q))


def training(case: toy.Case, steps: int = 100, lr: float = 0.01) -> list[float]:
    """The loss before each of `steps` steps of Adam on the case's one batch; NaN from where it stops being finite."""
    params, state, losses = case.params, None, []
    for _ in range(steps):
        try:
            run = step.run(dataclasses.replace(case, params=params))
            params, state = optimizer.adam(params, run.gradients.params, state, lr=lr)
        except ValueError:
            return losses + [float("nan")] * (steps - len(losses))
        losses.append(run.loss)
    return losses


# ---- the right answers, worked out before anything is wrong -------------------------------------


def _prepare(witnesses, train):
    for name in cases():
        _right_gradients(name)
        if train:
            _right_end(name)
        if {"PyTorch", "comparison"} & witnesses.keys():
            _torch_step(name)
        if "SymPy" in witnesses and name in (*EXACTLY, "document"):
            _sympy_entries(name)
        if "central differences" in witnesses:
            _right_slopes(name)


def _shows(mistake, name, running):
    """Whether the mistake changes a gradient of the case; Adam's change every step."""
    if mistake.kind == "optimizer":
        return True
    grads, right = step.run(running[name]).gradients.params if name in running else {}, _right_gradients(name)
    return any(grad.shape != right[n].shape or agreement(grad, right[n]) > 1e-9 for n, grad in grads.items())


@cache
def _right_gradients(name):
    return step.run(cases()[name]).gradients.params


@cache
def _right_end(name):
    """How far above its floor the loss ends without a mistake."""
    case = cases()[name]
    return training(case)[-1] - floor(case)


def _runs(case):
    try:
        step.run(case)
    except (ValueError, IndexError):
        return False
    return True


def _logits(case, **changed):
    case = dataclasses.replace(case, **changed)
    if case.source is None:
        return decoder.forward(case.params, case.config, case.decoder_input, lengths=case.target_lengths).logits
    tokens = case.source, case.decoder_input
    return transformer.forward(case.params, case.config, *tokens, case.source_lengths, case.target_lengths).logits


def _loss(case, params):
    logits = _logits(dataclasses.replace(case, params=params))
    return loss.cross_entropy(logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction)[0]


def _directions(case, parameter):
    return np.random.default_rng(len(parameter)).choice((-1.0, 1.0), (2, *case.params[parameter].shape))


def _slopes(case):
    def along(parameter, direction):
        return directional_difference(lambda value: _loss(case, {**case.params, parameter: value}), case.params[parameter], direction, 2e-5, 4)

    return {parameter: [along(parameter, direction) for direction in _directions(case, parameter)] for parameter in case.params}


@cache
def _right_slopes(name):
    return _slopes(cases()[name])


@cache
def _torch_step(name) -> tuple[dict, dict, dict]:
    """Activations, their gradients and the parameters' gradients, by PyTorch."""
    from byhand.torch import step as torch_step

    case = cases()[name]
    run = torch_step.run(case)
    order = step.run(case).gradients.stages  # for the order of its names alone: which stage comes first on the way back
    stages = {stage: run.gradients.stages[stage] for stage in order if stage in run.gradients.stages}
    return run.activations, stages, run.gradients.params


@cache
def _sympy_entries(name) -> dict[str, dict[tuple[int, ...], float]]:
    """Two entries of each parameter's gradient, exactly; on the larger models one entry of some."""
    from byhand.sympy import witness

    case = cases()[name]
    rng = np.random.default_rng(0)
    entries = {}
    for parameter, value in case.params.items():
        if not parameter.endswith(EXACTLY.get(name, ("",))):
            continue
        places = rng.integers(0, value.shape, (2 if name in ("lively", "document") else 1, value.ndim))
        entries[parameter] = {tuple(map(int, place)): float(witness(case, parameter, tuple(map(int, place)))) for place in places}
    return entries


# ---- Adam ---------------------------------------------------------------------------------------

_THETA = np.array([1.0, -0.5, 0.25])
_GRADIENTS = np.array([[0.5, -1e-3, 1e-4], [-0.25, 2e-3, 1e-4], [1.0, 1e-3, -2e-4], [0.5, 0.0, 1e-4]])


def _adam_differs(right, bound):
    params, state = {"w": _THETA}, None
    for number, (g, expected) in enumerate(zip(_GRADIENTS, right), start=1):
        params, state = optimizer.adam(params, {"w": g}, state, lr=0.1)
        if agreement(params["w"], expected) > bound:
            return f"step {number}"
    return ""


@cache
def _adam_by_pytorch():
    import torch

    theta = torch.tensor(_THETA, requires_grad=True)
    adam = torch.optim.Adam([theta], lr=0.1, betas=(0.9, 0.98), eps=1e-9)
    found = []
    for g in _GRADIENTS:
        theta.grad = torch.tensor(g)
        adam.step()
        found.append(theta.detach().clone().numpy())
    return found


@cache
def _adam_by_sympy():
    import sympy as sp

    from byhand.sympy import optimizer as exact

    params, state, found = {"w": sp.Matrix([[sp.Rational(x) for x in _THETA]])}, None, []
    for g in _GRADIENTS:
        params, state = exact.adam(params, {"w": sp.Matrix([[sp.Rational(x) for x in g]])}, state, lr=sp.Rational(1, 10))
        found.append(np.array(params["w"].evalf(30), dtype=float).ravel())
    return found


if __name__ == "__main__":
    matrix = kill_matrix(name=True)
    STORED.write_text(json.dumps(matrix.data(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(matrix)
