"""The conformance kit: worked examples as plain files that a transformer in any language can be held against, and a broken file for each mistake.

    python -m byhand kit FOLDER

A file holds arrays under the names "parameters/…", "activations/…", "loss", "gradients/…" (of stages and of parameters), "parameters_1/…" and
"parameters_2/…" (after one and two steps of Adam), beside the tokens. What they mean stands beside them under "kit"; kit_schema.json describes it.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import cache
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from byhand import toy
from byhand.numpy import optimizer, step
from byhand.toy import Case

from .measure import FLOOR, difference
from .mistakes import MISTAKES, Mistake

Array = np.ndarray
Arrays = dict[str, Array]
VERSION = "1.0"  # of the schema: another one where a name or a meaning changes
SCHEMA = "kit_schema.json"
FORMATS = ("json", "npz", "safetensors")
BOUND = 1e-9  # of the measure, between two implementations in float64
CLEAR = 10 * BOUND  # by how much the first wrong stage of a broken file differs at least
# ε is larger than the paper's 1e-9, by which a gradient that is 0 but for rounding (1e-17) would move its parameter visibly
ADAM = {"lr": 1e-3, "beta_1": 0.9, "beta_2": 0.98, "eps": 1e-6}
INPUTS = ("source", "decoder_input", "targets", "source_lengths", "target_lengths")
PASSES = (("activations/", "loss"), ("gradients/",), ("parameters_1/", "parameters_2/"))


@cache
def instances() -> dict[str, Case]:
    """The worked examples of the kit, the smaller before the larger."""
    decoder = toy.decoder()
    brief = {name: getattr(decoder, name)[:1, :4].copy() for name in ("decoder_input", "targets")}
    return {
        "document": toy.document(), "lively": toy.lively(), "uneven_tied": toy.uneven(tied=True), "generic": toy.generic(),
        "block_pre": toy.block("pre"), "block_post": toy.block("post"), "stack_tied": toy.tied_stack(),
        "decoder_brief": replace(decoder, **brief, target_lengths=np.array([3])), "decoder": decoder,
    }  # fmt: skip


# A mistake is planted in the first of these that shows it.
LOOKED_AT = {
    "step": ("lively", "document", "uneven_tied", "generic"),
    "stack": ("block_pre", "block_post", "stack_tied", "decoder_brief", "decoder"),
}


class Broken(NamedTuple):
    """What a mistake changes: in which instance, the arrays of the pass in which it first shows, in the order of computing."""

    instance: str
    arrays: Arrays


# ---- the arrays ---------------------------------------------------------------------------------


def computed(case: Case, updates: bool = True) -> Arrays:
    """What an implementation has to compute, in the order of computing: activations, loss, gradients, and the parameters after two steps of Adam

    The gradients of a layer's parameters stand behind the stage whose gradient they are made of.
    """
    run = step.run(case)
    arrays = {f"activations/{name}": array for name, array in run.output.activations.items()} | {"loss": np.array(run.loss)}
    grads = run.gradients.params
    stages = {name: array for name, array in run.gradients.stages.items() if ".via_" not in name}
    behind: dict[str, list[str]] = {}
    for name in grads:
        behind.setdefault(_made_of(name, stages), []).append(name)
    for stage, array in stages.items():
        arrays |= {f"gradients/{stage}": array} | {f"gradients/{name}": grads[name] for name in behind.pop(stage, ())}
    arrays |= {f"gradients/{name}": grads[name] for names in behind.values() for name in names}
    return arrays | _updates(case, grads) if updates else arrays


def _made_of(parameter, stages):
    """The stage whose gradient a parameter's is made of; "" for none that is known."""
    room, _, name = parameter.rpartition(".")
    letter = name.partition("_")[2]
    if room == "output":
        return "logits"
    if parameter.endswith("embedding"):
        return next(stage for stage in (f"{'encoder' if parameter.startswith('source') else 'decoder'}.input", "input") if stage in stages)
    own = {"1": "hidden", "2": "out", "3": "gate", "o": "out", "": "out"}.get(letter, letter)
    return next((stage for stage in (f"{room}.{own}_unrotated", f"{room}.{own}") if stage in stages), "")


def _updates(case, grads):
    params, state, found = case.params, None, {}
    how = dict(lr=ADAM["lr"], betas=(ADAM["beta_1"], ADAM["beta_2"]), eps=ADAM["eps"])
    for number in (1, 2):
        params, state = optimizer.adam(params, grads, state, **how)
        found |= {f"parameters_{number}/{name}": array for name, array in params.items()}
        if number == 1:
            grads = step.run(replace(case, params=params)).gradients.params
    return found


def given(case: Case) -> Arrays:
    """What an implementation is given: the tokens, their lengths and the parameters."""
    tokens = {name: np.asarray(getattr(case, name), np.int64) for name in INPUTS if getattr(case, name) is not None}
    return tokens | {f"parameters/{name}": array for name, array in case.params.items()}


@cache
def right(instance: str) -> Arrays:
    """given and computed of an instance."""
    case = instances()[instance]
    return given(case) | computed(case)


def about(instance: str) -> dict[str, Any]:
    """What stands under "kit" in a file: what the arrays mean."""
    case = instances()[instance]
    inputs = given(case)
    return {
        "version": VERSION, "instance": instance, "config": asdict(case.config), "loss": {"reduction": case.reduction, "smoothing": case.smoothing},
        "adam": ADAM, "words": {side: list(words) for side, words in case.names.items()}, "bound": BOUND, "floor": FLOOR,
        "order": [name for name in right(instance) if name not in inputs],
    }  # fmt: skip


def broken(mistake: Mistake) -> Broken | None:
    """The mistake in the first instance on which it runs, keeps all shapes and shows clearly; None where that is none

    Left out is what a mistake leads to in later passes: with a wrong activation all gradients would be wrong too.
    """
    for instance in LOOKED_AT.get(mistake.part, ()):
        reference, case = right(instance), instances()[instance]
        try:
            with mistake.planted(), np.errstate(all="ignore"):
                arrays = computed(case, updates=False) if mistake.kind != "optimizer" else _updates(case, _gradients(instance))
        except (ValueError, IndexError):  # it does not run where lengths or widths differ
            continue
        if any(array.shape != reference[name].shape for name, array in arrays.items()):
            continue
        shown = (name for name in reference if name in arrays)  # the right order, which the mistake may have changed
        wrong = {name: arrays[name] for name in shown if difference(arrays[name], reference[name], name).holds(BOUND) is False}
        first = next(iter(wrong), None)
        if first and difference(wrong[first], reference[first]).error > CLEAR:
            its_pass = next(names for names in PASSES if first.startswith(names))
            return Broken(instance, {name: array for name, array in wrong.items() if name.startswith(its_pass)})
    return None


def _gradients(instance):
    case = instances()[instance]
    return {name: right(instance)[f"gradients/{name}"] for name in case.params}


# ---- the files ----------------------------------------------------------------------------------


def write(
    folder: str | Path, mistakes: Iterable[Mistake] | None = None, right_as: Iterable[str] = FORMATS, broken_as: Iterable[str] = ("safetensors",)
) -> dict[str, Any]:
    """Write the kit into a folder, and return its manifest: every file with what is in it, its size and its SHA-256

    mistakes: the whole catalogue unless given. The same bytes on every run; on another processor last digits may differ.
    """
    folder, broken_as = Path(folder), tuple(broken_as)
    (folder / "broken").mkdir(parents=True, exist_ok=True)
    written: list[dict] = []
    for instance in instances():
        for kind in right_as:
            path = folder / f"{instance}.{kind}"
            save(path, about(instance), right(instance))
            written.append({"instance": instance, **_described(path, folder)})
    catalogue, nowhere = [], []
    for mistake in MISTAKES.values() if mistakes is None else mistakes:
        found = broken(mistake)
        if found is None:
            nowhere.append({"mistake": mistake.name, "shows_in": "no instance" if mistake.part in LOOKED_AT else mistake.part})
            continue
        for kind in broken_as:
            path = folder / "broken" / f"{slug(mistake.name)}.{kind}"
            save(path, {"version": VERSION, "instance": found.instance, "right": f"../{found.instance}.{kind}"}, found.arrays)
            catalogue.append({
                "mistake": mistake.name, "why": mistake.why, "page": mistake.page, "right_lines": mistake.right_lines(),
                "instance": found.instance, "first": next(iter(found.arrays)), **_described(path, folder),
            })  # fmt: skip
    manifest = {"version": VERSION, "byhand": metadata.version("byhand"), "right": written, "broken": catalogue, "not_in_a_step": nowhere}
    (folder / "manifest.json").write_text(_text(manifest), "utf-8")
    (folder / SCHEMA).write_text(files("byhand.check").joinpath(SCHEMA).read_text("utf-8"), "utf-8")
    return manifest


def save(path: Path, about: dict[str, Any], arrays: Arrays) -> None:
    """One file, in the format that its ending names: json, npz or safetensors."""
    words = json.dumps(about, separators=(",", ":"))
    if path.suffix == ".json":
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(array.tolist(), separators=(',', ':'), allow_nan=False)}" for name, array in arrays.items())
        path.write_text(f'{{"kit": {words},\n"arrays": {{\n{lines}\n}}}}\n', "utf-8")
    elif path.suffix == ".npz":
        np.savez(path, kit=np.array(words.encode()), **arrays)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file  # only here: it comes with the book, not with the package alone

        # one entry alone, since the library writes several in another order on every run
        save_file({name: array.copy("C") for name, array in arrays.items()}, path, {"kit": words})
    else:
        raise ValueError(f"path was {str(path)!r}; it must end in one of {', '.join(FORMATS)}")


def slug(name: str) -> str:
    """A mistake's name as a file's: letters, digits and hyphens."""
    words = []
    for sign in unicodedata.normalize("NFKD", name):
        if sign.isascii():
            words.append(sign)
        elif "GREEK" in (called := unicodedata.name(sign)) or sign in "√−":
            words.append(f" {called.rpartition(' ')[2] if sign != '−' else 'minus'} ")
    return "-".join(re.findall("[a-z0-9]+", "".join(words).replace("'", "").lower()))


def _described(path, folder):
    content = path.read_bytes()
    return {"file": path.relative_to(folder).as_posix(), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _text(value):
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
