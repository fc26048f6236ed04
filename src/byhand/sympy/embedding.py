"""Embedding: a token picks its row of the table, scaled by √d_model."""

from collections.abc import Sequence

import sympy as sp

from .derivation import Derivation, counted, derive, symbols


def embedding(table: sp.Matrix, tokens: Sequence[int], scaled: bool = True) -> sp.Matrix:
    """y[t] = √d_model · table[tokens[t]];  without √d_model where scaled is False

    table (vocab, d_model), one sequence of tokens; y (time, d_model).
    Raises IndexError for a token outside the table. Source: Vaswani et al. 2017, section 3.4.
    """
    for token in tokens:
        if not 0 <= token < table.rows:
            raise IndexError(f"tokens held the token {token}; it must lie in [0, {table.rows})")
    return _scale(table.cols, scaled) * table.extract([int(token) for token in tokens], range(table.cols))


def _scale(d_model, scaled):
    return sp.sqrt(d_model) if scaled else sp.Integer(1)


@counted
def embedding_derivation(tokens: Sequence[int] = (0, 1, 0), vocab: int = 3, d_model: int = 2, scaled: bool = True) -> dict[str, Derivation]:
    """dtable[v] = √d_model · Σ_{t: tokens[t] = v} dy[t]: a repeated token adds, a row never looked up gets 0.

    Learned positions are the same without √d_model.
    """
    table, dy = symbols("table", vocab, d_model), symbols("dy", len(tokens), d_model)
    looked_up = sp.Matrix(vocab, len(tokens), lambda v, t: int(tokens[t] == v))  # one-hot columns
    root = r"\sqrt{d_{\text{model}}}\," if scaled else ""
    formula = root + r"\textstyle\sum_{t:\,\text{token}_t = v} dY_t"
    textbook = _scale(d_model, scaled) * looked_up * dy
    note = f"tokens {', '.join(map(str, tokens))} of {vocab}"
    stated, inputs = rf"Y = {root}E_{{\text{{tokens}}}}", {"table": table, "dy": dy}
    return {"dtable": derive("embedding", embedding(table, tokens, scaled), inputs, "table", textbook, stated, f"dE_v = {formula}", note=note)}
