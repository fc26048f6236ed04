"""What the live page reads, as one JSON value."""

import json

import numpy as np

from .. import toy
from .formulas import Arrays
from .questions import RATES, TINY, Question, Variant, questions
from .step import VIA, ZERO, Switches, leaf_axes, leaves, rules, sizes, stages, weight_axes
from .words import home, labels, rooms


def data() -> dict:
    """Rules, stages, names, worked examples and questions."""
    examples = {name: getattr(toy, name)() for name in RATES}
    plain, switched = stages(), {}
    given = {name: flat(leaves(case, RATES[name])) for name, case in examples.items()}

    def variant(v: Variant, question: Question) -> dict:
        own, base = flat(leaves(v.case, v.lr) | v.edits), given[v.toy]
        values = v.values()
        after = v.after(values) if any(meter.kind == "after" for meter in question.meters) else np.nan
        entry = {"name": v.name, "toy": v.toy, "by": "package" if v.by_package else "formulas"}
        entry["leaves"] = {name: value for name, value in own.items() if value != base[name]}
        if v.switches is not None:
            key = _switch_name(v.switches)
            switched[key] = [_row(a) for a, b in zip(stages(v.switches), plain, strict=True) if a != b]
            entry["switch"] = key
        if sizes(v.case) != sizes(examples[v.toy]):
            entry["sizes"] = sizes(v.case)
        return entry | {"read": [meter.read(values, after) for meter in question.meters]}

    asked = [
        {
            "key": q.key, "title": q.title, "ask": q.ask, "choices": q.choices, "answer": q.answer, "lesson": q.lesson, "look": q.look,
            "meters": [meter.settings() for meter in q.meters],
            "variants": [variant(v, q) for v in q.variants],
        }
        for q in questions()
    ]  # fmt: skip
    return {
        "rules": rules(),
        "stages": [_row(stage) for stage in plain],
        "leaves": leaf_axes(),
        "weights": list(weight_axes()),
        "labels": labels(),
        "rooms": rooms(),
        "homes": {s.name: home(s.name) for s in plain if home(s.name) != s.name.removeprefix("d:").removeprefix("new:")},
        "via": VIA,
        "zero": ZERO,
        "tiny": TINY,
        "toys": {name: {"sizes": sizes(case), "names": case.names, "leaves": given[name]} for name, case in examples.items()},
        "switches": switched,
        "questions": asked,
    }


def script(**more) -> str:
    """The data, and whatever else is given by name, as a script that pages opened from a file can load too."""
    return "// Written by `python -m byhand.live`.\nwindow.byhandStep = " + json.dumps(data() | more, ensure_ascii=False, separators=(",", ":")) + ";\n"


def flat(values: Arrays) -> dict[str, list[float]]:
    """Each array as a list of its entries, whole numbers as such."""
    return {name: [int(x) if x == int(x) else float(x) for x in np.ravel(value)] for name, value in values.items()}


def _row(stage):
    return [*stage[:4], {key: list(value) for key, value in stage.operands.items()}]


def _switch_name(switches):
    plain = Switches()
    off = [name for name in ("relu", "norms") if not getattr(switches, name)] + [name for name in plain.residuals if name not in switches.residuals]
    return "without " + (", ".join(off) if len(off) < len(plain.residuals) else "residuals")
