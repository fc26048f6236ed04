"""A stranger's training step beside the book's: which line is wrong, or how much of it was compared and agrees."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from byhand.config import Config
from byhand.numpy import loss as losses
from byhand.numpy import optimizer

from .diagnosis import diagnose, factor_name
from .doors import checked
from .match import match
from .measure import TOO_SMALL, difference
from .mistakes import MISTAKES
from .plant import Mistake
from .reader import InProcess, OwnProcess, Result, Unreadable, in_words
from .reference import EPSILONS, RIGHT, Arrays, Batch, Reference, candidates, described, going_forward, with_eps
from .report import Report, Row, counted, place_text, within

STATED = ("n_heads", "norm", "norm_kind", "activation", "positions", "eps", "scaled", "pairing", "reduction", "smoothing")
BOUND = 1e-9
BETAS, ADAM_EPSILONS = ((0.9, 0.98), (0.9, 0.999), (0.9, 0.95)), (1e-9, 1e-8, 1e-6)
STEP = [mistake for mistake in MISTAKES.values() if mistake.part in ("step", "stack") and mistake.kind != "optimizer"]
INVARIANT = "always: "
FORWARD_ALONE = "the forward pass"
UPDATE = [mistake for mistake in MISTAKES.values() if mistake.kind == "optimizer"]


@dataclass(frozen=True)
class Finding:
    """The first thing that is wrong.

    stage, where   the first array that differs, in the order of computing, and its first wrong entry; mine and right are the two values there
    cause          the likely mistakes' names, the likeliest first; all of them explain every array that was compared. Empty where none does
    how            what the difference looks like
    site           where alone the mistake is made; "" for everywhere
    behind         what the rest says: that nothing else is wrong, or what is
    example        the shortest tokens found that still fail
    """

    stage: str
    where: str = ""
    mine: float | None = None
    right: float | None = None
    cause: tuple[str, ...] = ()
    how: str = ""
    site: str = ""
    behind: str = ""
    example: str = ""

    @property
    def mistake(self) -> Mistake | None:
        return MISTAKES[self.cause[0]] if self.cause else None

    def lines(self) -> list[str]:
        """The finding in sentences."""
        values = "" if self.mine is None else ", {} where {} is right".format(*_told_apart(self.mine, self.right))
        text = [f"First to differ: {self.stage}{self.where}{values}."]
        if self.mistake:
            text.append(f"Likely cause: {self.cause[0]} ({self.mistake.why}){f', in {self.site} alone' if self.site else ''}.")
            if self.cause[1:]:
                text.append(f"On these arrays it could as well be: {'; '.join(self.cause[1:])}.")
            text += ["The right line:", *(f"    {line}" for line in self.mistake.right_lines()), f"It is derived on the page {self.mistake.page}."]
        elif self.how:
            text.append(f"How: {self.how}.")
        return text + [line for line in (self.behind, self.example) if line]


@dataclass(frozen=True, eq=False, repr=False)
class Judgement(Report):
    """What check.mine found: true only where something was compared and all of it agrees.

    findings: the likeliest first. coverage: how much was compared, and what was not. worked_out: the conventions, in words.
    """

    findings: tuple[Finding, ...] = ()
    coverage: str = ""
    worked_out: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.findings and super().__bool__()

    def _sentences(self):
        text = [self.title]
        for finding in self.findings:
            text += finding.lines()
        return text + [self.coverage] * bool(self.coverage) + ([f"Worked out: {'; '.join(self.worked_out)}."] if self.worked_out else [])

    def __repr__(self) -> str:
        return "\n".join([*self._sentences(), "", *super().__repr__().splitlines()[1:]] if self.rows else self._sentences())

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, Any]:
        import html

        table = super()._repr_mimebundle_(include, exclude)["text/html"] if self.rows else ""
        shown = "".join(f"<p>{html.escape(line)}</p>" if not line.startswith("    ") else f"<pre>{html.escape(line)}</pre>" for line in self._sentences()[1:])
        folded = f"<details><summary>every stage</summary>{table}</details>" if table else ""
        return {"text/plain": repr(self), "text/html": f'<div class="byhand-output"><p><strong>{html.escape(self.title)}</strong></p>{shown}{folded}</div>'}

    def data(self) -> dict[str, Any]:
        """The same as plain data."""
        findings = [{**vars(f), "cause": list(f.cause), "page": f.mistake.page if f.mistake else "", "lines": f.lines()} for f in self.findings]
        rows = [{"name": row.name, "holds": row.holds, "error": row.worst, "where": row.where, "verdict": row.verdict} for row in self.rows]
        verdict = None if not self and not self.findings else bool(self)
        return dict(right=verdict, title=self.title, findings=findings, coverage=self.coverage, worked_out=list(self.worked_out), rows=rows)

    def json(self) -> str:
        return json.dumps(self.data(), ensure_ascii=False, indent=1, default=str)


def _check_mine(names, optimizer, bound, seed, timeout):
    if seed < 0:
        raise ValueError(f"seed was {seed}; it must be at least 0")
    for name, value in (("bound", bound), ("timeout", timeout)):
        if value is not None and value <= 0:
            raise ValueError(f"{name} was {value}; it must be above 0")
    if unknown := (optimizer or {}).keys() - {"lr", "betas", "eps"}:
        raise ValueError(f"optimizer held {sorted(unknown)[0]!r}; it must hold lr, betas and eps, or some of them")
    for theirs, ours in (names or {}).items():
        if not isinstance(theirs, str) or not isinstance(ours, str):
            raise ValueError(f"names held {theirs!r}: {ours!r}; both must be strings, theirs to ours")


@checked(_check_mine)
def mine(
    step: Any,
    names: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    config: Config | None = None,
    optimizer: Mapping[str, Any] | None = None,
    bound: float | None = None,
    seed: int = 0,
    timeout: float = 60.0,
    **stated: Any,
) -> Judgement:
    """Runs a reader's training step on tokens of its own choosing and says which line is wrong, or how much was compared and agrees

    step(tokens, targets), of a decoder stack, or step(source, decoder_input, targets), each (batch, time), returns a dict with the "params" that it
    used, and any of "logits", "loss", "gradients", "activations", "params_1", "params_2", "params_3" (after one, two, three updates on this batch): arrays or
    tensors, nested as they are. It may take lengths, source_lengths, target_lengths, params and config by these names. An object may have the
    method `step`. It runs in this process, on copies; "file.py:name" for a step gives it a process of its own, which is ended where a call takes longer than
    `timeout` seconds: what `python -m byhand check file.py:name` does.

    What is not stated is worked out from shapes and values, and said: which parameter is which (names: theirs to ours, for what has an odd name, a *
    in both standing for the layer's number), n_heads, norm, norm_kind, activation, eps, positions, pairing and scaled as a Config has them, reduction,
    smoothing; optimizer: {"lr": …, "betas": …, "eps": …}. params: handed in, for a step that takes them; config: handed on, and its fields count as
    stated. bound: 1e-9 for float64; for float32 what rounding does to the book's own step, forty times.

    The mistakes are those of byhand.check.mistakes: each is planted in the book's step, everywhere, then at one place or at one of every layer, and the
    one that gives the reader's numbers is named; several that do are named together. Nothing that was not compared counts as right.
    """
    unknown = stated.keys() - set(STATED)
    if unknown:
        raise ValueError(f"{sorted(unknown)[0]!r} was stated; what can be stated is {', '.join(STATED)}")
    if config is not None:
        stated = {name: getattr(config, name) for name in STATED if hasattr(config, name)} | stated
    reader = None
    try:
        reader = OwnProcess(*step.rpartition(":")[::2], timeout) if isinstance(step, str) else InProcess(step)
        return _Check(reader, names, params, config, optimizer, bound, seed, stated).judgement()
    except Unreadable as error:
        return Judgement(f"Your code could not be checked: {error}.", ())
    finally:
        if reader is not None:
            reader.close()


class _Check:
    def __init__(self, reader, names, params, config, settings, bound, seed, stated):
        self.reader, self.names, self.config, self.settings, self.given_bound, self.stated = reader, names, config, dict(settings or {}), bound, stated
        self.handed = None if params is None else {str(name): np.asarray(value) for name, value in params.items()}
        self.rng = np.random.default_rng(seed)
        self.has_source = reader.wants[0] == 3
        self.notes: list[str] = []
        self.kept: dict[tuple, tuple] = {}

    def judgement(self) -> Judgement:
        probe = self.call(_even(self.batch([2, 2] if self.has_source else [2], 1, 2)))
        theirs = probe.get("params", self.handed)
        if not theirs:
            raise Unreadable("it returned no params, and none were given; without the weights nothing can be compared")
        self.match = match(theirs, self.has_source, self.names)
        if self.match.unknown:
            self.notes.append(f"no place was found for {', '.join(self.match.unknown)}: say what they are, as names={{…}}")
        self.result = self.shown(theirs)
        ours = self.match.take(self.result.get("params", theirs))
        self.bound = self.given_bound or (BOUND if self.result.dtypes <= {"float64"} else 1e-4)
        self.not_finite()
        self.reference, forward = self.conventions(ours)
        self.seen = self.arrays(self.result, self.reference)
        self.bounds = self.noise()
        return self.verdict(forward)

    # ---- running it -----------------------------------------------------------------------------

    def batch(self, vocabs, size, time) -> Batch:
        """Random tokens with a repetition; a source is one longer than the target. Lengths where the step takes them."""
        wants = self.reader.wants[1]
        target = self.rng.integers(0, vocabs[-1], (size, time + 1))
        source = self.rng.integers(0, vocabs[0], (size, time + 1)) if self.has_source else None
        if time > 2:
            target[0, 2] = target[0, 1]
        if source is not None and time > 2:
            source[0, 2] = source[0, 0]
        shorter = np.maximum(1, time - np.arange(size) % 2 * 2)  # every second sequence is padded
        return Batch(
            source, target[:, :-1].copy(), target[:, 1:].copy(), shorter + 1 if "source_lengths" in wants and size > 1 else None,
            shorter if {"target_lengths", "lengths"} & set(wants) and size > 1 else None,
        )  # fmt: skip

    def call(self, batch) -> Result:
        optional = {name: value for name, value in batch.lengths().items() if name in self.reader.wants[1]}
        optional |= {"params": self.handed} if "params" in self.reader.wants[1] and self.handed is not None else {}
        optional |= {"config": self.config} if "config" in self.reader.wants[1] and self.config is not None else {}
        try:
            return self.reader(batch.arguments(), optional)
        except Unreadable:
            raise
        except Exception as error:  # whatever a reader's code does is theirs to hear about, in words
            raise Unreadable(in_words(error, getattr(self.reader, "step", ""))) from error

    def shown(self, theirs) -> Result:
        """The step on the batch that everything is compared on; lengths of source and target are unequal, unless it stops at that."""
        ours = self.match.take(theirs)
        vocabs = [len(ours[name]) for name in ("source_embedding", "target_embedding", "embedding") if name in ours]
        tables = [len(value) for name, value in ours.items() if name.endswith("positions")]
        time = max(1, min([5, *tables]) - self.has_source)
        self.data = self.batch(vocabs, 3, time)
        try:
            result = self.call(self.data)
        except Unreadable as error:
            if not self.has_source:
                raise
            self.data = _even(self.data)
            result = self.call(self.data)
            self.notes.append(f"it ran only where source and target are equally long; with {time + 1} and {time} tokens {error}")
        again = self.call(self.data)
        for part in ("logits", "loss"):
            if part in result and not np.array_equal(result[part], again.get(part), equal_nan=True):
                raise Unreadable(f"its {part} is another one when it is called again with the same tokens: it keeps what it learnt, or draws numbers (dropout)")
        first, after = result.get("params"), result.get("params_1")
        if first and after and all(np.array_equal(first[n], after.get(n)) for n in first) and any(np.any(g) for g in result.get("gradients", {}).values()):
            raise Unreadable("params and params_1 are the same numbers: the update changes the weights in place; return a copy from before it as params")
        return result

    def not_finite(self):
        for part, value in self.result.items():
            for name, array in (value if isinstance(value, dict) else {"": value}).items():
                if not np.isfinite(array).all():
                    place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
                    raise Unreadable(f"{part} {name}{place_text(place)} was {array[place]}; every number must be finite".replace("  ", " ").replace(" [", "["))

    # ---- what its conventions are ---------------------------------------------------------------

    def conventions(self, ours):
        """The reference that its logits and its loss are nearest to, and the forward mistakes with which they agree."""
        found = list(candidates(ours, self.has_source, self.stated))
        if not found:
            raise Unreadable("its parameters' shapes fit no model of this book" + (f"; {self.notes[-1]}" if self.notes else ""))
        measured = sorted(((self.far(reference), i) for i, reference in enumerate(found)), key=lambda pair: pair[0])
        best, forward = found[measured[0][1]], []
        if "eps" not in self.stated:
            near = [with_eps(found[i], eps) for _, i in measured[:6] for eps in EPSILONS]
            best = min(near, key=self.far) if self.far(best) > 1e-13 else best
        if self.bound < self.far(best) < np.inf:  # ∞ where it returned nothing to judge by
            best, *forward = self.wrong_forward([found[i] for _, i in measured[:96]]) or (best,)  # a mistake may bring another one nearer
        return self.loss_convention(best, forward)

    def wrong_forward(self, references) -> tuple[Reference, Mistake] | None:
        """The reference and the mistake going forward that give its logits."""
        tries, nearest = ((reference, mistake) for reference in references for mistake in STEP if mistake.kind == "forward"), (np.inf, None)
        for pair in tries:
            if (far := self.far(*pair)) <= self.bound:
                return pair
            nearest = min(nearest, (far, pair), key=lambda one: one[0])
        if nearest[1] and "eps" not in self.stated:
            reference, mistake = nearest[1]
            return next(((other, mistake) for eps in EPSILONS if self.far(other := with_eps(reference, eps), mistake) <= self.bound), None)
        return None

    def far(self, reference, mistake=RIGHT) -> float:
        """How far logits, or else loss, or else gradients, are from that reference's."""
        try:
            if "logits" in self.result:
                right = reference.forward(self.data, mistake).logits
                logits = self.batch_first(self.result["logits"], right)
                return difference(logits, right).error if logits is not None else np.inf
            found = reference.run(self.data, mistake)
        except (ValueError, IndexError, KeyError):
            return np.inf
        if "loss" in self.result:
            return abs(float(self.result["loss"].sum()) - float(found["loss"]))
        mine = self.match.take(self.result.get("gradients", {}))
        errors = [difference(mine[n], found[f"d:{n}"]).error for n in mine if f"d:{n}" in found and mine[n].shape == found[f"d:{n}"].shape]
        return float(np.median(errors)) if errors else np.inf

    def batch_first(self, array, right):
        """Turned round where it is time first, or without a batch of its own."""
        if array.shape == right.shape:
            return array
        if array.ndim == right.ndim and array.swapaxes(0, 1).shape == right.shape:
            return array.swapaxes(0, 1)
        return array.reshape(right.shape) if array.size == right.size and array.shape[-1:] == right.shape[-1:] else None

    def loss_convention(self, reference, forward):
        """With the reduction and the smoothing that give its loss, from its own logits where it has any; else the one whose gradients are nearest."""
        options = [
            reference._replace(reduction=reduction, smoothing=smoothing)
            for reduction in ([self.stated["reduction"]] if "reduction" in self.stated else ["mean", "sum", "last"])
            for smoothing in ([self.stated["smoothing"]] if "smoothing" in self.stated else [0.0, 0.1])
        ]
        base = forward[0] if forward else RIGHT

        def loss_of(option, mistake=RIGHT):
            with mistake.planted():
                logits = self.batch_first(self.result["logits"], np.empty((*self.data.targets.shape, option.config.target_vocab)))
                return losses.cross_entropy(logits, self.data.targets, option.smoothing, lengths=self.data.target_lengths, reduction=option.reduction)[0]

        def loss_error(option, mistake=RIGHT):
            value = loss_of(option, mistake)
            return abs(value - float(self.result["loss"].sum())) / max(abs(value), 1e-3)

        def gradient_error(option):
            found, mine = option.run(self.data, base), self.match.take(self.result.get("gradients", {}))
            return min((difference(mine[n], found[f"d:{n}"]).error for n in mine if n.startswith("output") and f"d:{n}" in found), default=0.0)

        if "logits" in self.result and "loss" in self.result:
            best = min(options, key=loss_error)
            if loss_error(best) > self.bound:
                of_loss = [m for m in STEP if m.kind == "forward" and m.changes[0].function.__module__.endswith("loss")]
                error, option, mistake = min(((loss_error(o, m), o, m) for o in options for m in of_loss), key=lambda one: one[0])
                if error <= self.bound:
                    return option, [*forward, mistake]
                mine = self.result["loss"].sum()
                best = next((option for option in options if factor_name(float(mine / loss_of(option)))), best)  # a plain multiple of it says more
            return best, forward
        if "loss" in self.result:
            return min(options, key=lambda option: abs(float(option.run(self.data, base)["loss"]) - float(self.result["loss"].sum()))), forward
        return min(options, key=gradient_error), forward

    # ---- comparing ------------------------------------------------------------------------------

    def arrays(self, result, reference) -> Arrays:
        """What it returned, under our names and in our layout, in the order of computing."""
        right = reference.run(self.data)
        seen = {}
        self.unpaired = []
        taken = set()
        for name, array in result.get("activations", {}).items():
            stage = self.stage_of(name, array, right, taken)
            if stage:
                seen[stage] = self.laid_out(array, right[stage])
                taken.add(stage)
            else:
                self.unpaired.append(name)
        if "logits" in result:
            logits = self.batch_first(result["logits"], right["logits"])
            seen["logits"] = result["logits"] if logits is None else logits
            if logits is not None and logits.shape != result["logits"].shape:
                self.notes.append("logits are time first")
        if "loss" in result and result["loss"].size == 1:
            seen["loss"] = result["loss"].reshape(())
        grads = self.match.take(result.get("gradients", {}))
        seen |= {f"d:{name}": grads[name] for name in reference.order() if name in grads}
        order = list(right)
        return dict(sorted(seen.items(), key=lambda item: order.index(item[0])))

    def stage_of(self, name, array, right, taken):
        """The stage of that name, or the one that has these numbers."""
        stated = (self.names or {}).get(name, name)
        if f"a:{stated}" in right:
            return f"a:{stated}"
        for stage, value in right.items():
            if stage.startswith("a:") and stage not in taken and array.size == value.size:
                mine = self.laid_out(array, value)
                if mine.shape == value.shape and difference(mine, value).holds(self.bound):
                    return stage
        return ""

    def laid_out(self, array, right):
        for order in ((), (1, 0), (2, 0, 1), (1, 2, 0), (0, 2, 1)):
            turned = np.moveaxis(array, range(len(order)), order) if order and array.ndim >= len(order) else array
            if turned.shape == right.shape and (not order or difference(turned, right).holds(self.bound)):
                return turned
        return array

    def noise(self) -> dict[str, float]:
        """Each array's bound: in float32, forty times what rounding does to the book's own."""
        right = self.reference.run(self.data)
        if self.given_bound or self.result.dtypes <= {"float64"}:
            return {name: self.bound for name in right}
        single = self.reference.run(self.data, dtype=np.float32)
        return {name: max(1e-5, 40 * difference(single[name], right[name]).error) for name in right}

    def agree(self, found) -> dict[str, bool | None]:
        """Of every array that it returned, whether it is this one; None where both are too small to tell."""
        return dict(self.agreements(found))

    def agreements(self, found) -> Iterator[tuple[str, bool | None]]:
        for name, value in self.seen.items():
            right = found.get(name)
            yield name, value.shape == np.shape(right) and difference(value, right, name).holds(self.bounds[name])

    def tried(self, mistakes: list[Mistake], only=None, params=None, whole=True) -> Arrays | None:
        """The reference with these mistakes; None where it does not run like that, and with whole=False where going forward it is not this one."""
        together = Mistake("", "", sum((m.changes for m in mistakes), ()))
        asked = together.changes, only, whole, id(self.reference), id(self.data), id(params)  # the same is asked several times
        if asked not in self.kept:
            try:
                found = self.computed(together, only, params, whole)
            except (ValueError, IndexError, KeyError):
                found = None
            self.kept[asked] = found, (self.reference, self.data, params)  # what has an id lives as long as it is known by it
        return self.kept[asked][0]

    def computed(self, mistake, only, params, whole):
        ahead = tuple(change for change in mistake.changes if _goes_forward(change))
        if only is not None and ahead:
            return self.reference.run(self.data, mistake, only)
        asked = ahead, id(self.reference), id(self.data), id(params)  # one forward pass serves all that differ behind it
        if asked not in self.kept:
            self.kept[asked] = self.reference.forward(self.data, Mistake("", "", ahead), params), (self.reference, self.data, params)
        output = self.kept[asked][0]
        if not whole and ahead:
            found = going_forward(output)
            if any(holds is False for name, holds in self.agreements(found) if name in found):
                return None
        return self.reference.backward(self.data, output, mistake, only)

    def explanations(self, forward) -> Iterator[tuple[list[Mistake], str, tuple[int, ...] | None]]:
        """Mistakes that give every one of its arrays, and where alone they are made, in words and as numbers of calls: everywhere, then at one place or
        one of every layer, then two together."""
        base = self.tried(forward)
        whole = [[*forward, m] for m in STEP if m not in forward and self.explains(self.tried([*forward, m], whole=False))]
        if whole:
            yield from ((mistakes, "", None) for mistakes in whole)
            return
        found_one = False
        for mistake in STEP:
            alone = len({change.function for change in mistake.changes}) == 1 or not any(map(_goes_forward, mistake.changes))
            if alone and not forward:
                for site, only in self.sites(mistake, base):
                    yield [mistake], site, only
                    found_one = True
        if found_one:
            return
        likely = sorted((m for m in STEP if m not in forward), key=lambda m: -self.reach(self.tried([*forward, m])))[:4]
        for first in likely:
            if self.reach(self.tried([*forward, first])) > self.reach(base):
                for second in STEP:
                    if second is not first and second not in forward and self.explains(self.tried([*forward, first, second], whole=False)):
                        yield [*forward, first, second], "", None

    def sites(self, mistake, base):
        """Where alone the mistake gives all that was returned: at one call, or at the same one of every layer, for which a * stands."""
        with mistake.planted(only=()) as calls:
            self.reference.run(self.data)
            count = next(calls)
        in_layers = {}
        for number in range(count if count > 1 else 0):
            found = self.tried([mistake], only=(number,))
            if found is None:
                continue
            first = next((name for name in base if name in self.seen and not _same(found[name], base[name])), "")
            if self.explains(found):
                yield words(first) if first else f"call {number}", (number,)
            in_layers.setdefault(re.sub(r"\.\d+\.", ".*.", first), []).append(number)
        for first, numbers in in_layers.items():
            if first and 1 < len(numbers) < count and self.explains(self.tried([mistake], only=tuple(numbers))):
                yield words(first), tuple(numbers)

    def explains(self, found) -> bool:
        return found is not None and all(holds is not False for _, holds in self.agreements(found))

    def reach(self, found) -> int:
        """How many arrays agree before the first that does not."""
        if found is None:
            return -1
        verdicts = list(self.agree(found).values())
        return verdicts.index(False) if False in verdicts else len(verdicts)

    # ---- the update -----------------------------------------------------------------------------

    def updates(self, explained) -> tuple[list[Row], Finding | None]:
        """Its parameters after one, two, three steps beside Adam's, or a plain descent's, from its own first gradients."""
        after = [self.match.take(self.result[part]) for part in ("params_1", "params_2", "params_3") if part in self.result]
        grads = self.match.take(self.result.get("gradients", {}))
        start = self.match.take(self.result.get("params", self.handed))
        told = self.agree(self.tried(*explained or ([],)))
        names = [n for n in self.reference.order() if n in grads and all(n in step for step in after) and told.get(f"d:{n}") is not None]
        names = [n for n in names if all(step[n].shape == grads[n].shape for step in (start, *after))]
        if not after or not names:
            return [], None
        gradients = [grads]
        for step in after[:-1]:  # the gradients of later steps, with whatever mistake explains the first
            found = None if explained is None else self.tried(*explained, params=step)
            if found is None:
                break
            gradients.append({name: found[f"d:{name}"] for name in names})
        row = _Row(names, grads)
        params, gradients = [row.joined(step) for step in (start, *after)], [row.joined(found) for found in gradients]
        right = self.fitting(RIGHT, row, params, gradients)
        causes = [] if right else [mistake.name for mistake in UPDATE if self.fitting(mistake, row, params, gradients)]
        verdict = "agrees" if right else "left open"
        rows = [Row(f"parameters after {counted(i + 1, 'update')}", bool(right) or None, verdict=verdict) for i in range(len(gradients))]
        if right:
            self.notes.append(right)
            return rows, None
        number = 1 if self.fitting(RIGHT, row, params[:2], gradients[:1]) else 0
        rows[number:] = [Row(row.name, False, verdict="differs") for row in rows[number:]]
        how = "" if causes else "it is no step of Adam or of plain descent from these gradients, whatever the learning rate"
        behind = "Its gradients were used as they are: the update is wrong by itself."
        return rows, Finding(f"the parameters after {counted(number + 1, 'update')}", cause=tuple(causes), how=how, behind=behind)

    def fitting(self, mistake, row, params, gradients) -> str:
        """The optimiser's settings under which these moves come out, in words, the nearest; "" where there are none."""
        betas = [self.settings["betas"]] if "betas" in self.settings else BETAS
        epsilons = [self.settings["eps"]] if "eps" in self.settings else ADAM_EPSILONS
        rules = [(pair, eps) for pair in betas for eps in epsilons] + [None] * (mistake is RIGHT)
        far, lr, rule = min((self.misfit(mistake, rule, row, params, gradients) + (rule,) for rule in rules), key=lambda one: one[0])
        if far > 1:
            return ""
        return f"plain descent, lr {lr:.4g}" if rule is None else f"Adam, lr {lr:.4g}, β {rule[0][0]:g} and {rule[0][1]:g}, ε {rule[1]:g}"

    def misfit(self, mistake, rule, row, params, gradients) -> tuple[float, float]:
        """How far the moves are from that rule's, in units of what rounding allows, and the learning rate that fits the first of them."""
        double = self.result.dtypes <= {"float64"}
        rounding, slack = (np.finfo(np.float64).eps, 1e-7) if double else (np.finfo(np.float32).eps, 5e-3)
        # a small gradient's share of rounding decides its whole step, so only the larger ones are looked at
        least = (1e3 * rounding if double else 8 * row.spread([self.bounds[f"d:{name}"] for name in row.names])) * row.largest(gradients[0])
        state, lr, far = None, self.settings.get("lr"), 0.0
        for before, grads, after in zip(params, gradients, params[1:]):
            move = after - before
            unit, state = self.unit_step(mistake, rule, before, grads, state)
            if unit is None:
                return np.inf, 0.0
            lr = _rate(unit, move, row) if lr is None else lr
            if lr <= 0:
                return np.inf, lr
            wanted = lr * unit
            allowed = slack * row.largest(wanted) + 8 * rounding * row.largest(before)
            far = max(far, (np.abs(move - wanted) / allowed)[np.abs(grads) > least].max(initial=0.0))
        return far, lr

    def unit_step(self, mistake, rule, before, grads, state):
        """The move with a learning rate of 1."""
        if rule is None:
            return -grads, None
        try:
            with mistake.planted():
                moved, state = optimizer.adam({"": np.zeros_like(before)}, {"": grads}, state, lr=1.0, betas=rule[0], eps=rule[1])
        except ValueError:
            return None, None
        return moved[""], state

    # ---- the verdict ----------------------------------------------------------------------------

    def verdict(self, forward) -> Judgement:
        right = self.reference.run(self.data)
        verdicts = self.agree(right)
        rows = [*self.invariants(), *(self.row(name, holds, right) for name, holds in verdicts.items())]
        findings, explained = [], ([], None)
        if forward or False in verdicts.values():
            findings, explained = self.findings(forward, right, verdicts)
        update_rows, update = self.updates(explained)
        findings += [update] if update else []
        rows += update_rows
        return Judgement(self.title(rows, findings), tuple(rows), tuple(findings), self.coverage(rows, right), tuple(self.worked_out()))

    def invariants(self) -> list[Row]:
        """What must hold whatever the model is: each row of ∂L/∂z sums to 0, each row of attention's weights to 1, and a key's bias moves nothing."""
        sums = {}
        for name, value in self.seen.items():
            if name in ("d:output.w", "d:output.b"):
                sums[f"{words(name)} sums to 0 over the classes"] = value.sum(axis=-1), np.abs(value).max()
            elif name.startswith("a:") and name.endswith(".weights"):
                sums[f"the rows of {words(name)} sum to 1"] = np.where(value.any(axis=-1), value.sum(axis=-1) - 1, 0), 1.0
            elif name.endswith(".b_k") and name.replace("b_k", "b_v") in self.seen:
                sums[f"{words(name)} is 0"] = value, np.abs(self.seen[name.replace("b_k", "b_v")]).max()
        rows = []
        for what, (gap, size) in sums.items():
            error = float(np.abs(gap).max() / max(size, 1e-30))
            holds = error <= max(self.bound, *self.bounds.values())
            rows.append(Row(f"{INVARIANT}{what}", holds, error, "", "holds" if holds else f"fails, off by {error:.2g}"))
        return rows

    def row(self, name, holds, right):
        value = self.seen[name]
        if value.shape != right[name].shape:
            return Row(words(name), False, verdict=f"shape {value.shape} for {right[name].shape}")
        worst = difference(value, right[name])
        verdict = {True: "agrees", False: f"differs, off by {worst.error:.2g}", None: TOO_SMALL}[holds]
        return Row(words(name), holds, worst.error, place_text(worst.place), verdict)

    def findings(self, forward, right, verdicts):
        """What is wrong, the first in the order of computing first, and the mistakes, and at which calls, with which the rest is judged (None where nothing
        explains it)."""
        first = next((name for name, holds in verdicts.items() if holds is False), None)
        alone = [(forward, "", None)] if forward and self.explains(self.tried(forward)) else []
        found = alone or [(self.forward_alone(m), FORWARD_ALONE, None) for m in forward if self.explains(self.tried(self.forward_alone(m)))]
        found = found or list(self.explanations(forward))
        place, values = self.first_wrong(first, right)
        common = dict(stage=words(first), where=place, mine=values[0], right=values[1], how=self.how(first, right), example=self.example(), site="")
        if found and len(found[0][0]) == 1:
            (mistakes, site, only), *_ = found
            causes = tuple(dict.fromkeys(m.name for one, *_ in found for m in one if len(one) == 1))
            n = counted(sum(v is not None for v in verdicts.values()), "array")
            behind = f"With this changed the book's own step gives all of your {n}: nothing else in them is wrong."
            return [Finding(**common | dict(site=site), cause=causes, behind=behind)], (mistakes, only)
        if found:
            several = [Finding(**common, cause=(found[0][0][0].name,), behind="It is not alone:")]
            return several + [Finding(stage="behind it", cause=(m.name,)) for m in found[0][0][1:]], (found[0][0], None)
        if forward:  # what is wrong going forward has a name; something behind it is wrong too, and has none
            right = self.tried(forward)
            later = self.agree(right)
            name = next(name for name, holds in later.items() if holds is False)
            place, values = self.first_wrong(name, right)
            second = Finding(words(name), place, *values, cause=self.partly(forward, later), how=self.how(name, right), behind=self.depends(name, later))
            return [Finding(**common, cause=tuple(m.name for m in forward), behind="It is not alone:"), second], None
        return [Finding(**common, cause=self.partly(forward, verdicts), behind=self.depends(first, verdicts))], None

    def forward_alone(self, mistake):
        """The same with the backward left as it was."""
        changes = tuple(change for change in mistake.changes if not change.function.__name__.endswith("_backward"))
        return [Mistake(mistake.name, mistake.why, changes, mistake.kind)]

    def partly(self, forward, verdicts):
        """Mistakes that explain the first wrong array and those up to the next one."""
        reach = {m.name: self.reach(self.tried([*forward, m])) for m in STEP if m not in forward}
        best, now = max(reach.values(), default=-1), self.reach(self.tried(forward))
        return tuple(name for name, n in reach.items() if n == best)[:4] if best > now + 1 else ()

    def first_wrong(self, name, right):
        if name is None or self.seen[name].shape != right[name].shape:
            return "", (None, None)
        mine, wanted = self.seen[name], right[name]
        size = max(np.abs(wanted).max(), np.abs(mine).max(), 1e-3)
        place = tuple(int(i) for i in np.argwhere(np.abs(mine - wanted) > self.bounds[name] * size)[0])
        return place_text(place), tuple(float(value[place]) if abs(value[place]) > 1e-9 * size else 0.0 for value in (mine, wanted))  # rounding is 0

    def how(self, name, right):
        if name is None:
            return ""
        if self.bound == BOUND and all(v.shape == right[n].shape and difference(v, right[n]).error < 1e-5 for n, v in self.seen.items()):
            return "no array is off by more than float32's rounding: where a part of your code computes in float32, state bound=1e-5"
        others = {words(other): value for other, value in right.items() if other != name and other[:2] == name[:2]}
        return diagnose(self.seen[name], right[name], self.bounds[name], others)

    def depends(self, first, verdicts):
        later = list(verdicts)[list(verdicts).index(first) + 1 :]
        wrong = [name for name in later if verdicts[name] is False]
        return f"Of the {counted(len(later), 'array')} computed after it {len(wrong)} differ{'s' * (len(wrong) == 1)} too, which may follow from it."

    def example(self):
        """The shortest batch on which something still differs: fewer sentences, then fewer tokens."""
        best, data = None, self.data
        for size, time in ((1, data.targets.shape[1]), *((1, t) for t in range(1, data.targets.shape[1]))):
            source = None if data.source is None else data.source[:size, : time + data.source.shape[1] - data.targets.shape[1]]
            smaller = Batch(source, data.decoder_input[:size, :time], data.targets[:size, :time])
            smaller = Batch(*(None if array is None else array.copy() for array in smaller))
            if self.fails_on(smaller):
                best = smaller
                if time < data.targets.shape[1]:
                    break
        if best is None:
            return ""
        shown = ", ".join(f"{name} {array.tolist()}" for name, array in zip(("source", "tokens", "targets"), best[:3]) if array is not None)
        return f"The smallest example found: {shown}."

    def fails_on(self, batch):
        kept = self.data, self.notes
        try:
            self.data, self.notes = batch, []
            seen, right = self.arrays(self.call(batch), self.reference), self.reference.run(batch)
            return any(v.shape != right[n].shape or difference(v, right[n]).holds(self.bounds[n]) is False for n, v in seen.items())
        except (Unreadable, ValueError, IndexError):
            return False
        finally:
            self.data, self.notes = kept

    def title(self, rows, findings):
        rows = [row for row in rows if not row.name.startswith(INVARIANT)]
        held, open_ = sum(row.holds is True for row in rows), sum(row.holds is None for row in rows)
        more = f", {open_} too small to tell or left open" if open_ else ""
        if findings:
            wrong = sum(row.holds is False for row in rows)
            return f"Not right: {wrong} of {counted(len(rows), 'array')} differ{'s' * (wrong == 1)}."
        if not held:
            return "Nothing could be compared: no verdict."
        return f"All that was compared agrees: {held} of {counted(len(rows), 'array')}{more}."

    def coverage(self, rows, right):
        parts = {
            "activations": [n for n in right if n.startswith("a:")], "the logits": ["logits"], "the loss": ["loss"],
            "gradients": [n for n in right if n.startswith("d:")],
        }  # fmt: skip
        compared = [f"{sum(n in self.seen for n in names)} of {len(names)} {part}" if len(names) > 1 else part for part, names in parts.items() if any(
            n in self.seen for n in names)]
        missing = [part for part, names in parts.items() if not any(n in self.seen for n in names)]
        updates = sum(row.name.startswith("parameters after") for row in rows)
        compared += [counted(updates, "update")] if updates else []
        missing += [] if updates else ["any update"]
        where = getattr(self.reader, "where", "")
        text = f"Compared: {', '.join(compared) or 'nothing'}; not compared: {', '.join(missing) or 'none of these is missing'}."
        if self.unpaired:
            text += f" No partner was found for your {', '.join(self.unpaired[:4])}{' and others' if len(self.unpaired) > 4 else ''}."
        return f"{text} It ran {where}."

    def worked_out(self):
        kinds = ", ".join(sorted(self.result.dtypes)) or "float64"
        double = self.given_bound or self.result.dtypes <= {"float64"}
        bound = f"{kinds}, compared {within(self.bound) if double else 'within forty times what rounding does to the same step of the book'}"
        return [*self.match.words, *described(self.reference, self.has_source), bound, *self.notes]


def _goes_forward(change):
    """Whether a forward pass is another one with it."""
    function = change.function
    return not function.__name__.endswith("_backward") and function.__module__ != losses.__name__


def _even(batch):
    """The source cut to the target's length."""
    time = batch.targets.shape[1]
    shorter = None if batch.source_lengths is None else np.minimum(batch.source_lengths, time)
    return batch._replace(source=None if batch.source is None else batch.source[:, :time].copy(), source_lengths=shorter)


def _told_apart(mine, right):
    """Both to three digits, or to as many as it takes."""
    return next((texts for n in range(3, 17) if len(set(texts := (f"{mine:.{n}g}", f"{right:.{n}g}"))) == 2), (repr(mine), repr(right)))


def _same(a, b):
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12)


class _Row:
    """All parameters one behind the other: an update goes entry by entry, and sixty small arrays cost more than a long one."""

    def __init__(self, names, like):
        self.names, self.sizes = names, [like[name].size for name in names]

    def joined(self, arrays):
        return np.concatenate([arrays[name].ravel() for name in self.names])

    def spread(self, values):
        """A number for each parameter, at each of its entries."""
        return np.repeat(values, self.sizes)

    def largest(self, row):
        """max|entry| of its parameter, at each entry."""
        return self.spread(np.maximum(np.maximum.reduceat(np.abs(row), np.cumsum([0, *self.sizes[:-1]])), 1e-30))


def _rate(unit, move, row):
    """The learning rate: the ratio at the entries that move most, rounded where that changes nothing."""
    most = np.abs(unit) > 0.5 * row.largest(unit)
    rate = float(np.median(move[most] / unit[most])) if most.any() else 0.0
    rounded = float(f"{rate:.3g}")
    return rounded if abs(rounded - rate) < 1e-5 * abs(rate) else rate


def words(name: str) -> str:
    """A stage's name, as a reader meets it."""
    return f"the gradient of {name[2:]}" if name.startswith("d:") else name[2:] if name.startswith("a:") else f"the {name}"
