"""Cross-entropy with label smoothing, and its gradient p − q; the next-token shift."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..doors import whole
from .checks import check_integers, check_lengths, check_mask, checked

Array = np.ndarray

REDUCTIONS = ("mean", "sum", "last")


def _check_loss(logits, targets, smoothing, ignore_index, lengths, reduction, mask):
    check_integers("targets", targets)
    if logits.ndim != 3 or not logits.shape[2] or targets.shape != logits.shape[:2]:
        raise ValueError(
            f"targets had shape {targets.shape} and logits {logits.shape}; they must be (batch, time) and (batch, time, vocab)"
        )
    _check_smoothing(smoothing)
    _check_weights(targets, ignore_index, lengths, reduction, mask)


def _check_weights(targets, ignore_index, lengths, reduction, mask):
    check_integers("targets", targets)
    if targets.ndim != 2 or 0 in targets.shape:
        raise ValueError(f"targets had shape {targets.shape}; it must be (batch, time), neither of them 0")
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction was {reduction!r}; it must be one of {', '.join(map(repr, REDUCTIONS))}")
    if lengths is not None:
        check_lengths("lengths", lengths, *targets.shape)
    if mask is not None:
        check_mask(mask, targets.shape)


def _check_smoothing(smoothing):
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing was {smoothing!r}; it must lie in [0, 1)")


def _check_smoothed(targets, vocab, smoothing):
    whole("vocab", vocab)
    _check_smoothing(smoothing)
    check_integers("targets", np.asarray(targets) if isinstance(targets, np.integer) else targets)  # one entry of an array is welcome
    if targets.size:
        _check_targets(targets, vocab)


def _check_p(p):
    if not p.ndim or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p had shape {p.shape} and entries outside [0, 1]; it must be (..., n) and hold probabilities")


def _check_next(tokens, lengths, mask):
    check_integers("tokens", tokens)
    if tokens.ndim != 2 or tokens.shape[1] < 2 or not len(tokens):
        raise ValueError(f"tokens had shape {tokens.shape}; it must be (batch, time) with a time of at least 2")


def _check_targets(targets, vocab):
    low, high = int(targets.min()), int(targets.max())
    if low < 0 or high >= vocab:
        raise IndexError(f"targets held the class {low if low < 0 else high}; it must lie in [0, {vocab})")


@checked(_check_loss)
def cross_entropy(
    logits: Float[Array, "batch time vocab"],
    targets: Int[Array, "batch time"],
    smoothing: float = 0.0,
    ignore_index: int | None = None,
    lengths: Int[Array, "batch"] | None = None,
    reduction: str = "mean",
    mask: Bool[Array, "batch time"] | None = None,
) -> tuple[float, Float[Array, "batch time vocab"]]:
    """L = −Σ_k q_k log p_k,  p = softmax(z), q = (1 − ε)·1[k = y] + ε/V;  ∂L/∂z = p − q

    Smoothing puts ε/V on every class, the right one included, as PyTorch does
    (Tensor2Tensor: ε/(V − 1) on the others). Positions whose target is ignore_index,
    that lie at or past their sequence's length, or where mask (a loss mask, True where
    a position counts) is False, are not scored: loss and gradient 0. reduction: "mean"
    over scored positions, "sum", or "last", each sequence's last position, averaged
    over the batch. Returns the loss and ∂L/∂z.
    Raises ValueError for smoothing outside [0, 1), an unknown reduction, shapes that do
    not fit, logits that are not finite, and where nothing is left to score; IndexError
    for a target outside the vocabulary.
    Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.
    """
    weight = position_weights.rule(targets, ignore_index, lengths, reduction, mask)
    weight = weight.astype(logits.dtype)
    scored = weight > 0
    vocab = logits.shape[-1]
    _check_targets(targets[scored], vocab)
    labels = np.where(scored, targets, 0)  # what is not scored need not be a class
    right = np.arange(len(targets))[:, None], np.arange(targets.shape[1]), labels

    shifted = logits - logits.max(axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=-1, keepdims=True)
    # −Σ q log p, with log p = shifted − log(total) and Σ q = 1
    position_loss = np.log(total[..., 0]) - (1 - smoothing) * shifted[right]
    if smoothing:
        position_loss -= smoothing / vocab * shifted.sum(axis=-1)

    dlogits = exponentials / total  # p
    dlogits -= smoothing / vocab  # p − q, away from the right class ...
    dlogits[right] -= 1 - smoothing  # ... and at it
    dlogits *= weight[..., None]
    return float((weight * position_loss).sum()), dlogits


@checked(_check_smoothed)
def smoothed_targets(targets: Int[Array, "..."], vocab: int, smoothing: float) -> Float[Array, "... vocab"]:
    """q_k = (1 − ε)·1[k = target] + ε/V, in float64, as an array of its own; the loss itself never builds it

    Raises ValueError for smoothing outside [0, 1), IndexError for a target outside the vocabulary.
    """
    return (1 - smoothing) * np.eye(vocab)[targets] + smoothing / vocab


@checked(_check_p)
def entropy(p: Float[Array, "... n"]) -> Float[Array, "..."]:
    """H(p) = −Σ_k p_k log p_k, with 0 · log 0 = 0 (its limit): what no prediction can be cheaper than, where p is the target

    Raises ValueError where p is not an array of numbers from 0 to 1.
    """
    return (p * -np.log(np.where(p > 0, p, 1))).sum(axis=-1) + 0.0  # + 0: never −0


@checked(_check_weights)
def position_weights(
    targets: Int[Array, "batch time"],
    ignore_index: int | None = None,
    lengths: Int[Array, "batch"] | None = None,
    reduction: str = "mean",
    mask: Bool[Array, "batch time"] | None = None,
) -> Float[Array, "batch time"]:
    """What each position's loss is multiplied by in the sum: 1/n, 1, or 1/n at the last positions; 0 where not scored."""
    batch, time = targets.shape
    ends = np.full(batch, time) if lengths is None else np.asarray(lengths)
    steps = np.arange(time)
    scored = steps == ends[:, None] - 1 if reduction == "last" else steps < ends[:, None]
    if ignore_index is not None:
        scored = scored & (targets != ignore_index)
    if mask is not None:
        scored = scored & np.asarray(mask)
    count = scored.sum()
    if not count:
        raise ValueError("targets leave no position to score: every one is ignored, masked, or past its sequence's length")
    return scored * (1.0 if reduction == "sum" else 1 / count)


class NextToken(NamedTuple):
    inputs: Int[Array, "batch time-1"]
    targets: Int[Array, "batch time-1"]
    lengths: Int[Array, "batch"] | None
    mask: Bool[Array, "batch time-1"] | None


@checked(_check_next)
def next_token(
    tokens: Int[Array, "batch time"],
    lengths: Int[Array, "batch"] | None = None,
    mask: Bool[Array, "batch time"] | None = None,
) -> NextToken:
    """inputs = tokens[:, :-1],  targets = tokens[:, 1:]: position t is asked for token t + 1

    lengths and mask speak of tokens and come back shifted to the targets. mask, a loss mask, is True where a token is
    to be learned; a token that is not stays in the inputs, so that others may attend to it: an attention mask is
    another thing. Raises ValueError for fewer than two tokens, and where the shapes do not fit.
    """
    if lengths is not None:
        lengths = check_lengths("lengths", lengths, *tokens.shape) - 1
        if not lengths.min():
            raise ValueError("lengths held 1; each must be at least 2, a token and the one after it")
    if mask is not None:
        mask = check_mask(mask, tokens.shape)[:, 1:]
    return NextToken(tokens[:, :-1], tokens[:, 1:], lengths, mask)
