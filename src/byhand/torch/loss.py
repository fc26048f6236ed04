"""Cross-entropy with label smoothing."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from .inputs import check_lengths, check_vocabulary, checked, integers, looks

REDUCTIONS = ("mean", "sum", "last")
NOT_SCORED = -100


def _check_loss(targets, smoothing, lengths, reduction, mask):
    # targets, lengths and mask, which may be lists, are looked at where they become tensors
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing was {smoothing}; it must be at least 0 and below 1")
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction was {reduction!r}; it must be one of {', '.join(map(repr, REDUCTIONS))}")


@checked(_check_loss)
def cross_entropy(
    logits: Float[Tensor, "batch time vocab"],
    targets: Int[Tensor, "batch time"],
    smoothing: float = 0.0,
    ignore_index: int | None = None,
    lengths: Int[Tensor, "batch"] | None = None,
    reduction: str = "mean",
    mask: Bool[Tensor, "batch time"] | None = None,
    look: bool = True,
) -> Float[Tensor, ""]:
    """loss = −Σ_c q_c log softmax(z)_c at each scored position, q_c = (1 − ε)·[c is the target] + ε/V

    ε is `smoothing`, spread over all V classes, the target's own included. A position is scored unless its target is `ignore_index`, it
    lies at or beyond its sequence's length, or mask (a loss mask, True where a position counts) is False there. reduction: "mean" over
    the scored positions of the whole batch, "sum" over them, or "last": each sequence's last position, averaged over the batch.

    Raises ValueError for smoothing outside [0, 1), an unknown reduction, shapes that do not fit, and where nothing is left to score;
    IndexError for a target outside the vocabulary. Logits that are not finite pass through: loss scaling in half precision relies on it.
    look=False takes the targets' and the lengths' values as they are, so that nothing waits for the device; where nothing is left to
    score a mean is then NaN.
    """
    targets = integers("targets", targets, logits.device)
    _check_shapes(logits, targets)
    look = look and looks(logits)
    if ignore_index is None and lengths is None and mask is None and reduction != "last":
        if look:
            check_vocabulary("targets", targets, logits.shape[-1])
    else:
        scored = _scored(targets, ignore_index, lengths, reduction, mask, look)
        if look:
            check_vocabulary("targets", targets[scored], logits.shape[-1])
        targets = targets.masked_fill(~scored, NOT_SCORED)
    how = "sum" if reduction == "sum" else "mean"  # PyTorch's mean leaves out what is not scored
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NOT_SCORED, label_smoothing=smoothing, reduction=how)


def _scored(targets, ignore_index, lengths, reduction, mask, look):
    """Which positions count."""
    batch, time = targets.shape
    ends = torch.full((batch,), time, device=targets.device) if lengths is None else check_lengths("lengths", lengths, targets, look)
    steps = torch.arange(time, device=targets.device)
    scored = steps == ends[:, None] - 1 if reduction == "last" else steps < ends[:, None]
    if ignore_index is not None:
        scored = scored & (targets != ignore_index)
    if mask is not None:
        mask = _booleans(mask, targets.device)
        if mask.dtype != torch.bool or mask.shape != targets.shape:
            raise ValueError(f"mask had dtype {mask.dtype} and shape {tuple(mask.shape)}; it must be booleans of shape {tuple(targets.shape)}")
        scored = scored & mask
    if look and not scored.any():
        raise ValueError("targets leave no position to score: every one is ignored, masked, or past its sequence's length")
    return scored


def _booleans(mask, device):
    try:
        return torch.as_tensor(mask, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"mask was {type(mask).__name__}; it must be booleans") from error


def _check_shapes(logits, targets):
    if logits.ndim != 3 or targets.shape != logits.shape[:2]:
        raise ValueError(
            f"targets had shape {tuple(targets.shape)} beside logits of {tuple(logits.shape)}; they must be (batch, time) and (batch, time, vocab)"
        )
    if not targets.numel():
        raise ValueError(f"targets had shape {tuple(targets.shape)}; at least one position must be there to score")
