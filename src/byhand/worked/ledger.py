"""A document's printed figures beside the ones that a page computes."""

from collections.abc import Mapping
from decimal import InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.display import Written
from byhand.worked.verdicts import printed_table


def document_figures(ledger: str | Path, figures: Mapping[str, Any]) -> Written:
    """A table of a document's prints beside computed values: claim and line, print, value, verdict. What differs comes first.

    ledger: the path of claims.yml. figures: the computed number or array under each claim's id.
    A verdict that is not the ledger's own means that something above was changed: it is said so, and these figures are left aside; `value` is
    then None, and book/_tools/lint.py refuses a page on which that stands. Raises ValueError for an id that the ledger lacks or whose entry prints
    no figure.
    """
    claims = _claims(Path(ledger).resolve())
    rows, changed = [], []
    for name, computed in figures.items():
        entry = claims.get(name)
        if entry is None or entry["printed"] is None:
            raise ValueError(f"figures held {name!r}; it must be the id of a claim in {Path(ledger).name} that prints a figure")
        row = (f"{name.partition('-')[2]} (line\N{NO-BREAK SPACE}{entry['line']})", entry["printed"], computed)
        if _as_printed(row) != entry["agrees"]:
            changed.append(row[0])
            continue
        rows.append((entry["agrees"], row))
    if changed:
        return _left_aside(changed, len(figures))
    differing, same = ([row for agrees, row in rows if agrees == kept] for kept in (False, True))
    summary = f"{len(same)} of {len(rows)} figures are as printed" + (", these are not:" if differing else ".")
    parts = [f"<p>{summary}</p>"]
    if differing:
        parts.append(printed_table(differing).html)
    if same:
        parts.append(f"<details><summary>Show the figures that are as printed</summary>{printed_table(same).html}</details>")
    text = "\n".join([summary] + [repr(printed_table(part)) for part in (differing, same) if part])
    return Written(text, html='<div class="byhand-output">\n' + "\n".join(parts) + "\n</div>", value=not differing)


def _as_printed(row) -> bool | None:
    """Whether the computed value is the print; None where it has no digits to compare, being infinite or far too large."""
    if not np.isfinite(f.as_floats(row[2])).all():
        return None
    try:
        return printed_table([row]).value
    except InvalidOperation:
        return None


CHANGED = "The input was changed"


def _left_aside(changed, count) -> Written:
    """What is said where the numbers are no longer those that the document prints, since the reader changed something."""
    said = f"{CHANGED}: {len(changed)} of {count} figures are no longer those of the page as it stands. The print is about that one, so it is left aside here."
    names = ", ".join(changed)
    return Written(f"{said}\n{names}", html=f'<div class="byhand-output">\n<p>{said}</p>\n<p>{names}</p>\n</div>', value=None)


@cache
def _claims(path: Path) -> dict[str, dict]:
    import yaml  # only pages that compare with a document need it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {entry["id"]: entry for entry in yaml.load(path.read_text("utf-8"), loader)["claims"]}
