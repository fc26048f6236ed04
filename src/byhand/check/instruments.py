"""Instruments for a training run that misbehaves: each looks at one thing, names the cause where it finds it, and is silent where it does not.

Every instrument returns a Report: true where nothing was found, otherwise its failures say what and where. Whether a position sees later tokens
is causal_isolation's to say (check.decoder_checks).
"""

import gc
import re
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from byhand.numpy.loss import cross_entropy

from .doors import checked
from .measure import as_floats
from .memory import size_text
from .report import Report, Row, place_text

Array = np.ndarray
LAYER = re.compile(r"(?:^|\.)(?:block|layer|layers|h|encoder|decoder)\.(\d+)\.")


# ---- a loss that is too good --------------------------------------------------------------------


@checked()
def shifted(inputs: Int[Array, "batch time"], targets: Int[Array, "batch time"]) -> Report:
    """targets[:, t] = inputs[:, t + 1]: the answer to a position is the next input, and not the input itself

    Raises ValueError where the shapes differ or there are fewer than two positions.
    """
    inputs, targets = np.asarray(inputs), np.asarray(targets)
    if inputs.shape != targets.shape or inputs.ndim != 2 or inputs.shape[1] < 2:
        raise ValueError(f"targets had shape {targets.shape} and inputs {inputs.shape}; they must be the same (batch, time), with a time of at least 2")
    ahead = (targets[:, :-1] == inputs[:, 1:]).mean()
    same = (targets == inputs).mean()
    behind = (targets[:, 1:] == inputs[:, :-1]).mean()
    if ahead == 1:
        row = Row("targets", True, None, "", "each is the next input")
    elif same == 1:
        row = Row("targets", False, None, "", "not shifted: each target is the input at its own position")
    elif behind == 1:
        row = Row("targets", False, None, "", "shifted the wrong way: each target is the input before its position")
    else:
        row = Row("targets", False, None, _first(targets[:, :-1] != inputs[:, 1:]), f"only {_percent(ahead)} are the next input")
    return _report("targets against inputs", [row])


@checked()
def overlap(training: Iterable[Any], validation: Iterable[Any]) -> Report:
    """|{v in validation: v in training}| = 0

    Examples are anything that compares by its contents: strings, tuples, arrays (compared entry by entry). Raises ValueError for
    no validation examples.
    """
    seen, held_out = {_key(example) for example in training}, [_key(example) for example in validation]
    if not held_out:
        raise ValueError("validation held no example; it must hold at least one")
    places = [i for i, example in enumerate(held_out) if example in seen]
    if not places:
        row = Row("validation", True, 0.0, "", f"none of {len(held_out)} examples is in the training set")
    else:
        where = f"example {places[0]}" + (f" and {len(places) - 1} more" if len(places) > 1 else "")
        row = Row("validation", False, len(places) / len(held_out), where, f"{len(places)} of {len(held_out)} examples are in the training set too")
    return _report("training against validation", [row])


# ---- a loss that is wrong before the first step -------------------------------------------------


@checked()
def loss_at_start(
    logits: Float[Array, "batch time vocab"], targets: Int[Array, "batch time"], inputs: Int[Array, "batch time"] | None = None, allowed: float = 0.75
) -> Report:
    """|L − ln V| ≤ allowed for a model that has learned nothing: it should guess about evenly

    Above ln V it is sure of something wrong before it has seen anything; below, it knows the answers already. With `inputs` the commonest
    reason is looked for: the likeliest next token is the input itself (a tied output table after rows scaled by √d).
    Raises ValueError where the shapes do not fit.
    """
    logits, targets = as_floats(logits, "logits"), np.asarray(targets)
    if logits.ndim != 3 or targets.shape != logits.shape[:2] or not targets.size:
        raise ValueError(f"targets had shape {targets.shape} beside logits of {logits.shape}; they must be (batch, time) and (batch, time, vocab)")
    if inputs is not None and np.shape(inputs) != targets.shape:
        raise ValueError(f"inputs had shape {np.shape(inputs)}; it must be the targets', {targets.shape}")
    loss, _ = cross_entropy(logits, targets)
    fair = np.log(logits.shape[-1])
    off = loss - fair
    wrong = "above it: sure of something wrong" if off > 0 else "below it: it knows answers already"
    side = "about a fair guess" if abs(off) <= allowed else wrong
    rows = [Row("loss", bool(abs(off) <= allowed), abs(off), "", f"{loss:.2f}, ln V is {fair:.2f}: {side}")]
    if inputs is not None:
        copies = (logits.argmax(axis=-1) == np.asarray(inputs)).mean()
        fine = copies <= 0.5
        repeats = "" if fine else ": it repeats what it reads"
        rows.append(Row("likeliest token", bool(fine), None, "", f"the input itself at {_percent(copies)} of the places{repeats}"))
    return _report("before the first step", rows)


# ---- NaN ----------------------------------------------------------------------------------------


@checked()
def first_not_finite(stages: Mapping[str, Any]) -> Report:
    """The first stage that overflowed or holds NaN, and for NaN what stood before it: why it came about

    stages: arrays or tensors by name, in the order of computing. −∞ alone is no fault (a masked score, the logarithm of 0); where NaN
    follows it is named as the cause: a row with nothing to attend to, or 0 · log 0.
    """
    rows, before = [], ""
    for name, value in stages.items():
        value = as_floats(value, name)
        if np.isnan(value).any():
            rows.append(Row(name, False, None, _first(np.isnan(value)), f"the first NaN: {before or 'from finite numbers, as 0/0 gives'}"))
            break
        over, under = np.isposinf(value), np.isneginf(value)
        empty = under.all(axis=-1) if value.ndim else np.False_
        if over.any():
            before = f"{name}{_first(over)} is ∞"
            rows.append(Row(name, False, None, _first(over), "overflowed to ∞"))
            continue
        if empty.any():
            before = f"row {_first(empty)} of {name} is −∞ throughout, nothing in it may be attended to"
        elif under.any() and not before:
            before = f"{name}{_first(under)} is −∞, the logarithm of 0, and 0 · −∞ is no number"
        rows.append(Row(name, True, None, "", "no NaN"))
    return _report("stages in the order of computing", rows)


@checked()
def step_sizes(before: Mapping[str, Any], after: Mapping[str, Any], limit: float = 0.3) -> Report:
    """|Δw| / |w| ≤ limit for every weight matrix: how far one step has moved it, relative to its own size

    A healthy step is a hundredth or less; near 1 the step replaces what it should correct. Vectors, which may start at 0, are left out.
    Raises ValueError where the names differ.
    """
    if before.keys() != after.keys():
        raise ValueError(f"after must have before's names; only one of them has {', '.join(sorted(map(str, before.keys() ^ after.keys()))[:4])}")
    rows = []
    for name, value in before.items():
        old, new = as_floats(value, name), as_floats(after[name], name)
        if old.shape != new.shape:
            raise ValueError(f"{name} had shape {old.shape} before and {new.shape} after; they must be the same")
        if old.ndim < 2 or not np.any(old):
            continue
        if not np.isfinite(new).all():
            rows.append(Row(name, False, None, "", "is not finite after the step"))
            continue
        ratio = float(np.linalg.norm(new - old) / np.linalg.norm(old))
        verdict = f"moved by {ratio:.2g} of its size" + ("" if ratio <= limit else ": the learning rate is too large")
        rows.append(Row(name, ratio <= limit, ratio, "", verdict))
    return _report("one step", rows)


# ---- layers that do not move --------------------------------------------------------------------


@checked()
def layer_gradients(gradients: Mapping[str, Any], ratio: float = 1e-3) -> Report:
    """‖g_layer‖ ≥ ratio · max over the layers: which layers hear the loss

    Gradients by parameter name; layers are told by a number after a dot, as in `block.3.…`. Raises ValueError where no name has one.
    """
    sums: dict[int, float] = {}
    for name, value in gradients.items():
        if found := LAYER.search(name):
            layer = int(found[1])
            sums[layer] = sums.get(layer, 0.0) + float((as_floats(value, name) ** 2).sum())
    if not sums:
        raise ValueError(f"gradients had the names {', '.join(list(gradients)[:4])}; some must hold a layer's number, as block.0.attention.w_q does")
    norms = {layer: float(np.sqrt(total)) for layer, total in sorted(sums.items())}
    largest = max(norms.values())
    rows = []
    for layer, norm in norms.items():
        share = norm / largest if largest else 0.0
        heard = share >= ratio
        verdict = f"gradient norm {norm:.2g}" + ("" if heard else f", {share:.1g} of the largest: it hardly moves")
        rows.append(Row(f"layer {layer}", heard, share, "", verdict))
    return _report("gradient norms by layer", rows)


# ---- memory -------------------------------------------------------------------------------------


@checked()
def kept_memory(step: Callable[[], Any], times: int = 5, slack: int = 1 << 16) -> Report:
    """held after n calls − held after 1 call ≤ slack · (n − 1): what a step leaves behind, by Python's own count

    Counts what Python and NumPy allocate, not what PyTorch does on its own. slack in bytes a call. Raises ValueError for times below 2.
    """
    if times < 2:
        raise ValueError(f"times was {times}; it must be at least 2, so that there is something to compare")
    step()  # what is made once, such as an optimizer's state, is not growth
    gc.collect()
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        held = []
        for _ in range(times):
            step()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        if not running:
            tracemalloc.stop()
    each = (held[-1] - held[0]) / (times - 1)
    if each <= slack:
        return _report("memory from call to call", [Row("held memory", True, each, "", "does not grow")])
    return _report("memory from call to call", [Row("held memory", False, each, "", f"grows with every call by {size_text(each)}: something is kept")])


@checked()
def memory_use(**groups: Any) -> Report:
    """Σ bytes of every array in each group: what fills the memory, the largest first

    groups: params=…, gradients=…, activations=… and so on; each a dict, a sequence or a tuple, nested at will, of arrays or tensors. An
    array that is in several places of a group counts once.
    """
    sizes = {name: sum(_bytes_in(group, set())) for name, group in groups.items()}
    whole = sum(sizes.values()) or 1
    rows = [Row(name, True, float(size), "", f"{size_text(size)}, {_percent(size / whole)}") for name, size in sorted(sizes.items(), key=lambda item: -item[1])]
    return Report("memory", tuple(rows))


# ---- a loss that improves while the task does not -----------------------------------------------


@checked(lambda correct: None)
def by_slice(correct: Bool[Array, "examples"], slices: Mapping[str, Bool[Array, "examples"]], margin: float = 0.2) -> Report:
    """mean(correct[slice]) ≥ mean over the best slice − margin: where a good average hides a part that fails

    correct: one number for each example, 1 right and 0 wrong. slices: which examples belong to each. Raises ValueError for shapes that differ
    and for a slice without examples.
    """
    correct = as_floats(correct, "correct")
    if correct.ndim != 1 or not ((correct == 0) | (correct == 1)).all():
        raise ValueError(f"correct had shape {correct.shape}; it must hold one number for each example, 1 where it is right and 0 where not")
    means = {}
    for name, members in slices.items():
        members = np.asarray(members)
        if members.dtype != bool or members.shape != correct.shape:
            raise ValueError(f"slices[{name!r}] had dtype {members.dtype} and shape {members.shape}; it must be booleans of shape {correct.shape}")
        if not members.any():
            raise ValueError(f"slices[{name!r}] held no example; each must have at least one")
        means[name] = (float(correct[members].mean()), int(members.sum()))
    if not means:
        raise ValueError("slices was empty; there must be at least one")
    best = max(mean for mean, _ in means.values())
    rows = []
    for name, (mean, count) in means.items():
        fine = mean >= best - margin
        rows.append(Row(name, fine, best - mean, "", f"{_percent(mean)} right of {count}" + ("" if fine else f": far below the {_percent(best)} elsewhere")))
    return _report("the task, slice by slice", rows)


# ---- parts --------------------------------------------------------------------------------------


def _report(title: str, rows: Sequence[Row]) -> Report:
    failures = [row for row in rows if row.holds is False]
    if not failures:
        return Report(f"{title}: nothing {'found' if rows else 'was looked at'}", tuple(rows))
    first = failures[0]
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return Report(f"{title}: {first.name}{' ' + first.where if first.where else ''}: {first.verdict}{more}", tuple(rows))


def _first(places):
    return place_text(tuple(int(i) for i in np.argwhere(places)[0]))


def _key(example):
    if hasattr(example, "detach"):
        example = example.detach().cpu().numpy()
    if isinstance(example, np.ndarray):
        return example.shape, example.tobytes()
    return tuple(map(_key, example)) if isinstance(example, (list, tuple)) else example


def _bytes_in(group, seen):
    if isinstance(group, Mapping):
        for part in group.values():
            yield from _bytes_in(part, seen)
    elif isinstance(group, (list, tuple)):
        for part in group:
            yield from _bytes_in(part, seen)
    elif hasattr(group, "nbytes") and id(group) not in seen:
        seen.add(id(group))
        yield int(group.nbytes)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
