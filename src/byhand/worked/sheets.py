"""The sheet that goes with the reader: each value beside its gradient."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from byhand.worked import formatting as f
from byhand.worked.display import Written, array, text_table
from byhand.worked.formatting import LATEX, TEXT
from byhand.worked.matrices import write_matrix, write_shape


def sheet(rows: Sequence[tuple[str, Any, Any]], digits: int = 3, limit: int | None = 4) -> Written:
    """name | shape | value | gradient, one line for each (name, value, gradient); a gradient of None has not been found yet.

    value, gradient: numbers, vectors or matrices of one shape (a batch of one is taken as its only member). Sides longer than `limit` show their
    ends, with dots between; the shape is stated.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("rows was empty; it must hold at least one (name, value, gradient)")
    digits = f.checked_digits(digits)
    table, plain = [["", r"\text{shape}", r"\text{value}", r"\text{gradient}"]], []
    for row in rows:
        if len(row) != 3:
            raise ValueError(f"rows held {row!r}; each must be (name, value, gradient)")
        name, value, gradient = row
        value = _one(f.as_array(value, name), name)
        table.append([f.name_latex(name), write_shape(LATEX, value.shape), _cell(LATEX, value, digits, limit)])
        lines = [f"{f.name_text(name)} {write_shape(TEXT, value.shape)}", _indented("value", value, digits, limit)]
        if gradient is None:
            table[-1].append(r"\text{-}")
            lines.append("  gradient  -")
        else:
            gradient = _one(f.as_array(gradient, name), name)
            if gradient.shape != value.shape:
                raise ValueError(f"rows: the gradient of {name} had shape {gradient.shape}; it must have the value's shape {value.shape}")
            table[-1].append(_cell(LATEX, gradient, digits, limit))
            lines.append(_indented("gradient", gradient, digits, limit))
        plain += lines
    return Written("\n".join(plain), array(table, "l|c|c|c", rules=tuple(range(1, len(table)))))


def _one(values, name):
    while values.ndim > 2 and values.shape[0] == 1:
        values = values[0]
    if values.ndim > 2 or not values.size:
        raise ValueError(f"rows: {name} had shape {values.shape}; it must be a number, a vector or one matrix")
    return values


def _cell(form, values, digits, limit) -> str:
    if values.ndim == 0:
        return form.number(values[()], digits)
    return write_matrix(form, values, digits, f.scale_of(values), limit)


def _indented(label, values, digits, limit) -> str:
    first, *others = _cell(TEXT, values, digits, limit).splitlines()
    return "\n".join([f"  {label.ljust(8)}  {first}", *(" " * 12 + line for line in others)])


# What stands in the boxes of the whole step, from the words to the logits: symbol, stage, what it is, and which words its rows and columns are.
ENCODER = (
    ("X", "encoder.input", "the source words", "source", None),
    ("A", "encoder.0.self_attention.weights", "weights of self-attention", "source", "source"),
    ("MHA(X)", "encoder.0.self_attention.out", "the heads, mixed by W_O", "source", None),
    ("ENC₁", "encoder.0.norm_1.out", "first add and norm", "source", None),
    ("U", "encoder.0.feed_forward.hidden", "before the gates", "source", None),
    ("F", "encoder.0.feed_forward.out", "the network's result", "source", None),
    ("ENC", "encoder.memory", "second add and norm: the memory", "source", None),
)
DECODER = (
    ("Y", "decoder.input", "the target words", "target", None),
    ("A", "decoder.0.self_attention.weights", "weights of masked self-attention", "target", "target"),
    ("DEC₁", "decoder.0.norm_1.out", "first add and norm", "target", None),
    ("A", "decoder.0.cross_attention.weights", "weights of cross-attention", "target", "source"),
    ("DEC₂", "decoder.0.norm_2.out", "second add and norm", "target", None),
    ("U", "decoder.0.feed_forward.hidden", "before the gates", "target", None),
    ("F", "decoder.0.feed_forward.out", "the network's result", "target", None),
    ("h", "decoder.out", "third add and norm", "target", None),
    ("z", "logits", "the logits", "target", "vocabulary"),
)


def one_sheet(
    stages: Mapping[str, Any], source: Sequence[str], target: Sequence[str], vocabulary: Sequence[str], gradient: bool = False, digits: int = 2
) -> Written:
    """Every matrix of a one-layer encoder-decoder in its box, encoder and decoder beside each other; with `gradient` dX stands for X.

    stages: activations, or their gradients, under their dotted names, of one sentence pair. source, target and vocabulary name rows and columns.
    Side by side where there is room, under one another where there is not; it prints on one sheet. Raises ValueError for a stage that is missing.
    """
    words = {"source": list(source), "target": list(target), "vocabulary": list(vocabulary), None: None}
    digits, columns, plain = f.checked_digits(digits), [], []
    for title, boxes in (("Encoder", ENCODER), ("Decoder", DECODER)):
        shown = ""
        for symbol, name, what, rows, cols in boxes[::-1] if gradient else boxes:
            if name not in stages:
                raise ValueError(f"stages had no {name!r}; it must have every stage of a one-layer encoder-decoder")
            symbol = "d" * gradient + symbol
            value = _one_or_heads(f.as_array(stages[name], name), name)
            panels = [_digits(panel, digits) for panel in value]
            shown += _box(symbol, what, panels, words[rows], words[cols])
            heads = [f"{symbol}{f' head {h + 1}' * (len(panels) > 1)} ({what})" for h in range(len(panels))]
            plain += [line for head, panel in zip(heads, panels) for line in (head, text_table([[r, *row] for r, row in zip(words[rows], panel, strict=True)]))]
        columns.append(f'<section class="sheet-column"><h4>{title}</h4>\n{shown}</section>\n')
    return Written("\n".join(plain), html=f'<div class="byhand-output byhand-sheet" tabindex="0"><style>{_SHEET}</style>\n{"".join(columns)}</div>')


_SHEET = (
    ".byhand-sheet{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(22rem,100%),1fr));gap:0 1.2rem;color:inherit}"
    ".byhand-sheet h4{margin:.3rem 0;font-size:1rem}.byhand-sheet figure{margin:0 0 .45rem;padding:.2rem .5rem;border:1px solid rgba(128,128,128,.5);"
    "border-radius:.3rem;overflow-x:auto;break-inside:avoid}.byhand-sheet figcaption{font-size:.78rem}.byhand-sheet .panels{display:flex;gap:1rem}"
    ".byhand-sheet table{border-collapse:collapse;width:auto;margin:0;font-size:.78rem;color:inherit;background:none}"
    ".byhand-sheet :is(th,td){padding:0 .15rem 0 .3rem!important;white-space:nowrap;"
    "border:0!important;text-align:right!important;font-variant-numeric:tabular-nums;background:none!important;color:inherit!important;font-weight:400;line-height:1.45}"
    ".byhand-sheet table.long{font-size:.7rem}"
    ".byhand-sheet th{opacity:.75}.byhand-sheet td.zero{opacity:.5}@media print{.byhand-sheet{grid-template-columns:1fr 1fr;font-size:.7rem}}"
)


def _box(symbol, what, panels, rows, cols):
    def label(row):
        return f'<th scope="row">{html.escape(row)}</th>'

    tables = ""
    for number, panel in enumerate(panels):  # a second head has the same rows
        head = "".join(f'<th scope="col">{html.escape(c)}</th>' for c in cols) if cols else ""
        head = f"<thead><tr>{'' if number else '<td></td>'}{head}</tr></thead>" if head else ""
        body = "".join(
            f"<tr>{'' if number else label(row)}" + "".join(f"<td{' class=zero' * (cell.strip() == '0')}>{cell}</td>" for cell in line) + "</tr>"
            for row, line in zip(rows, panel, strict=True)
        )
        tables += f"<table{' class=long' * (len(panel[0]) > 6)}>{head}<tbody>{body}</tbody></table>"
    return f'<figure><figcaption><strong>{html.escape(symbol)}</strong> {html.escape(what)}</figcaption><div class="panels">{tables}</div></figure>\n'


def _digits(matrix, digits):
    scale = f.scale_of(matrix)
    return [[f.text(value, digits, scale) for value in row] for row in matrix]


def _one_or_heads(values, name):
    """(1, T, n) gives one matrix, (1, heads, T, n) one for each head."""
    if values.ndim not in (3, 4) or len(values) != 1 or not values.size:
        raise ValueError(f"stages: {name} had shape {values.shape}; it must hold one sentence pair, (1, T, n) or (1, heads, T, n)")
    return values if values.ndim == 3 else values[0]
