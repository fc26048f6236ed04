"""Scores to weights."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .inputs import check_mask, checked


def _check_softmax(x, mask):
    if not x.ndim or not x.shape[-1]:
        raise ValueError(f"x had shape {tuple(x.shape)}; it must be (..., n) with an n of at least 1")
    if mask is not None:
        check_mask(mask, x.shape, "x")


@checked(_check_softmax)
def softmax(x: Float[Tensor, "*batch n"], mask: Bool[Tensor, "... n"] | None = None) -> Float[Tensor, "*batch n"]:
    """y_i = e^(x_i) / Σ_j e^(x_j), over the last axis and over the places where the mask is True

    A row that is masked everywhere gives zeros (torch.softmax gives NaN), and passes no gradient.
    """
    if mask is None:
        return x.softmax(-1)
    # A finite filling keeps NaN out of the backward of all-masked rows; the second step makes them, and all that is masked, exactly 0.
    return x.masked_fill(~mask, torch.finfo(x.dtype).min).softmax(-1).masked_fill(~mask, 0.0)
