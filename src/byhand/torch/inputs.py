"""What the public entries check: tokens and lengths."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def integers(name: str, values, device=None) -> Int[Tensor, "..."]:
    """An int64 tensor of whole numbers on the device; arrays and nested lists are welcome."""
    tensor = torch.as_tensor(values)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"{name} had dtype {tensor.dtype}; it must hold integers")
    return tensor.to(device=device, dtype=torch.int64)


def check_tokens(name: str, values, vocab: int, max_length: int | None, device=None) -> Int[Tensor, "batch time"]:
    """Token numbers, (batch, time), neither empty nor outside the vocabulary."""
    checked = integers(name, values, device)
    if checked.ndim != 2 or checked.numel() == 0:
        raise ValueError(f"{name} had shape {tuple(checked.shape)}; it must be (batch, time), with at least one of each")
    if max_length is not None and checked.shape[1] > max_length:
        raise ValueError(f"{name} had {checked.shape[1]} positions; max_length allows {max_length}")
    check_vocabulary(name, checked, vocab)
    return checked


def check_vocabulary(name: str, values: Int[Tensor, "..."], vocab: int) -> None:
    low, high = torch.stack(values.aminmax()).tolist()  # one look at the device, not two
    if low < 0 or high >= vocab:
        raise IndexError(f"{name} held token {low if low < 0 else high}; with a vocabulary of {vocab} it must be from 0 to {vocab - 1}")


def check_lengths(name: str, lengths, beside: Tensor) -> Int[Tensor, "batch"]:
    """One length for each sequence of `beside` (batch, time), from 1 to time."""
    batch, time = beside.shape
    lengths = integers(name, lengths, beside.device)
    if lengths.shape != (batch,):
        raise ValueError(f"{name} had shape {tuple(lengths.shape)}; it must be ({batch},), one for each sequence of the batch")
    low, high = torch.stack(lengths.aminmax()).tolist()
    if low < 1 or high > time:
        raise ValueError(f"{name} held {low if low < 1 else high}; each must be from 1 to {time}")
    return lengths


def key_mask(lengths: Int[Tensor, "batch"], time: int) -> Bool[Tensor, "batch time"]:
    """mask[b, t] = t < lengths[b]"""
    return torch.arange(time, device=lengths.device) < lengths[:, None]
