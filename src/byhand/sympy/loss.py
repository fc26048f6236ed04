"""Cross-entropy with label smoothing, and its gradient p − q."""

from collections.abc import Sequence
from functools import partial

import sympy as sp

from .derivation import Derivation, counted, derive, symbols
from .exact import setting, tidied, tidy
from .softmax import in_probabilities, softmax

REDUCTIONS = ("mean", "sum", "last")


def cross_entropy(
    logits: Sequence[sp.Matrix],
    targets: Sequence[Sequence[int]],
    smoothing: sp.Expr = 0,
    ignore_index: int | None = None,
    lengths: Sequence[int] | None = None,
    reduction: str = "mean",
) -> tuple[sp.Expr, tuple[sp.Matrix, ...]]:
    """L = −Σ_k q_k log p_k,  p = softmax(z),  q = (1 − ε)·1[k = target] + ε/V

    logits: one (time, vocab) matrix for each sequence. Returns the loss and ∂L/∂z, which SymPy finds by differentiating the loss.
    reduction: "mean" over scored positions, "sum", or "last", each sequence's last position, averaged over the batch.
    Raises ValueError for smoothing outside [0, 1), an unknown reduction, and where nothing is left to score.
    Source: Szegedy et al. 2016, section 7.
    """
    weights = position_weights(targets, ignore_index, lengths, reduction)
    loss, slopes = sp.Integer(0), []
    for z, row, weight in zip(logits, targets, weights, strict=True):
        free = symbols("z", *z.shape)
        value = weighted_loss(free, row, weight, smoothing)[0]
        numbers = dict(zip(free, z))
        loss += value.subs(numbers)
        slopes.append(tidied(free.applyfunc(lambda entry: sp.diff(value, entry).subs(numbers))))
    return tidy(loss), tuple(slopes)


def weighted_loss(logits: sp.Matrix, targets: Sequence[int], weights: Sequence[sp.Expr], smoothing: sp.Expr) -> sp.Matrix:
    """Σ_t weight_t · (−Σ_k q_tk log p_tk) for one sequence, as a 1 × 1 matrix"""
    p = softmax(logits)
    total = sp.Integer(0)
    for t, (target, weight) in enumerate(zip(targets, weights)):
        if weight != 0:  # an ignored target need not be a class
            q = smoothed_targets(target, logits.cols, smoothing)
            total -= weight * sum(q[k] * sp.log(p[t, k]) for k in range(logits.cols))
    return sp.ImmutableMatrix([[total]])


def smoothed_targets(target: int, vocab: int, smoothing: sp.Expr) -> sp.Matrix:
    """q_k = (1 − ε)·1[k = target] + ε/V, one row"""
    smoothing = setting(smoothing)
    if not smoothing.free_symbols and not 0 <= smoothing < 1:
        raise ValueError(f"smoothing was {smoothing}; it must lie in [0, 1)")
    if not 0 <= target < vocab:
        raise IndexError(f"targets held the class {target}; it must lie in [0, {vocab})")
    return sp.ImmutableMatrix(1, vocab, lambda _, k: (1 - smoothing) * int(k == target) + smoothing / vocab)


def position_weights(
    targets: Sequence[Sequence[int]], ignore_index: int | None = None, lengths: Sequence[int] | None = None, reduction: str = "mean"
) -> tuple[tuple[sp.Expr, ...], ...]:
    """What each position's loss is multiplied by in the sum: 1/n, 1, or 1/n at the last positions; 0 where not scored."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction was {reduction!r}; it must be one of {', '.join(map(repr, REDUCTIONS))}")
    ends = [len(row) for row in targets] if lengths is None else list(lengths)

    def scored(t, target, end):
        return (t == end - 1 if reduction == "last" else t < end) and target != ignore_index

    kept = [[scored(t, target, end) for t, target in enumerate(row)] for row, end in zip(targets, ends, strict=True)]
    count = sum(map(sum, kept))
    if not count:
        raise ValueError("targets leave no position to score: every one is ignored or past its sequence's length")
    weight = sp.Integer(1) if reduction == "sum" else sp.Rational(1, count)
    return tuple(tuple(weight if keep else sp.Integer(0) for keep in row) for row in kept)


@counted
def cross_entropy_derivation(vocab: int = 4, targets: Sequence[int] = (2,), reduction: str = "mean") -> dict[str, Derivation]:
    """dlogits = p − q, divided by the number of scored positions under "mean", for any smoothing ε"""
    logits, eps = symbols("z", len(targets), vocab), sp.Symbol("epsilon", real=True)
    weights = position_weights([targets], reduction=reduction)[0]
    y = weighted_loss(logits, targets, weights, eps)
    p = symbols("p", len(targets), vocab)
    q = sp.Matrix.vstack(*(smoothed_targets(target, vocab, eps) for target in targets))
    rule = sp.diag(*weights) * (p - q)
    where = dict(zip(p, softmax(logits)))
    n = weights[-1] ** -1
    formula = r"dZ = p - q" if n == 1 else rf"dZ = \tfrac{{1}}{{{n}}}(p - q)"
    note = f"targets {', '.join(map(str, targets))} of {vocab}, reduction {reduction}"
    stated, inputs = (
        r"L = -\textstyle\sum_{t,k} q_{tk} \log p_{tk}" + (r" / n" if weights[-1] != 1 else ""),
        {"logits": logits, "smoothing": sp.Matrix([[eps]])},
    )
    in_p = partial(in_probabilities, x=logits, p=p)
    return {"dlogits": derive("softmax and cross-entropy", y, inputs, "logits", rule, stated, formula, in_p, where=where, note=note)}
