"""What the functions of this floor look at (byhand.doors says when): tensors of one floating-point dtype and one device; tokens and lengths.

Any floating-point dtype is computed, half precision too. NaN and infinities pass through, as everywhere in PyTorch: loss scaling relies on
it, and to look for them would wait for the device. A compiler or an export takes the rules alone, since it looks at shapes and dtypes itself.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from .. import doors
from ..doors import plain  # noqa: F401 (rooms take it from here)


def checked(check: Callable | None = None) -> Callable:
    """doors.checked for tensors, and out of the way while a compiler traces."""

    def decorate(rule):
        door = doors.checked(check, floats=check_tensors)(rule)

        @wraps(rule)
        def open_to_compilers(*args, **kwargs):
            return (rule if torch.compiler.is_compiling() else door)(*args, **kwargs)

        open_to_compilers.rule = rule
        return open_to_compilers

    return decorate


def check_tensors(**tensors: Any) -> None:
    """Raise ValueError for the first that is not a floating-point tensor, or is of another dtype or device than the first of all.

    Under autocast the dtypes may differ: it brings them together.
    """
    first = None
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"{name} was {type(value).__name__}; it must be a tensor")
        if not value.is_floating_point():
            raise ValueError(f"{name} had dtype {value.dtype}; it must be a tensor of floating-point numbers")
        first = first or (name, value)
        if value.device != first[1].device:
            raise ValueError(f"{name} was on {value.device} and {first[0]} on {first[1].device}; all tensors of one call must share one")
        if value.dtype != first[1].dtype and not torch.is_autocast_enabled(value.device.type):
            raise ValueError(f"{name} had dtype {value.dtype} and {first[0]} {first[1].dtype}; all tensors of one call must share one")


def check_device(device: Any) -> None:
    """Raise ValueError unless it is None or names a device."""
    try:
        torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device was {device!r}; it must be None or name a device") from error


def check_mask(mask: Bool[Tensor, "..."], shape: tuple[int, ...], of: str, name: str = "mask") -> None:
    """Raise ValueError unless it is a tensor of booleans that broadcasts to this shape."""
    fits = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.ndim <= len(shape)
    if not fits or any(m not in (1, n) for m, n in zip(reversed(mask.shape), reversed(shape))):
        was = f"dtype {mask.dtype} and shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else f"type {type(mask).__name__}"
        raise ValueError(f"{name} had {was}; it must be a tensor of booleans that broadcasts to {of}, {tuple(shape)}")


def check_activations(activations: dict[str, Tensor] | None) -> None:
    """Raise ValueError unless it is None or a dict to be filled."""
    if activations is not None and not isinstance(activations, dict):
        raise ValueError(f"activations was {type(activations).__name__}; it must be None or a dict to be filled")


def looks(tensor: Tensor) -> bool:
    """Whether there are numbers to look at: not on the meta device, and not while a compiler traces."""
    return tensor.device.type != "meta" and not torch.compiler.is_compiling()


def integers(name: str, values, device=None) -> Int[Tensor, "..."]:
    """An int64 tensor of whole numbers on the device; arrays and nested lists are welcome."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} was {type(values).__name__}; it must hold integers: a tensor, an array or nested lists") from error
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"{name} had dtype {tensor.dtype}; it must hold integers")
    return tensor.to(device=device, dtype=torch.int64)


def check_tokens(name: str, values, vocab: int, max_length: int | None, device, look: bool) -> Int[Tensor, "batch time"]:
    """Token numbers, (batch, time), neither empty nor, where they are looked at, outside the vocabulary."""
    checked = integers(name, values, device)
    if checked.ndim != 2 or checked.numel() == 0:
        raise ValueError(f"{name} had shape {tuple(checked.shape)}; it must be (batch, time), with at least one of each")
    if max_length is not None and checked.shape[1] > max_length:
        raise ValueError(f"{name} had {checked.shape[1]} positions; max_length allows {max_length}")
    if look and looks(checked):
        check_vocabulary(name, checked, vocab)
    return checked


def check_vocabulary(name: str, values: Int[Tensor, "..."], vocab: int) -> None:
    low, high = torch.stack(values.aminmax()).tolist()  # one look at the device, not two
    if low < 0 or high >= vocab:
        raise IndexError(f"{name} held token {low if low < 0 else high}; with a vocabulary of {vocab} it must be from 0 to {vocab - 1}")


def check_lengths(name: str, lengths, beside: Tensor, look: bool) -> Int[Tensor, "batch"]:
    """One length for each sequence of `beside` (batch, time), from 1 to time where they are looked at."""
    batch, time = beside.shape
    lengths = integers(name, lengths, beside.device)
    if lengths.shape != (batch,):
        raise ValueError(f"{name} had shape {tuple(lengths.shape)}; it must be ({batch},), one for each sequence of the batch")
    if not (look and looks(lengths)):
        return lengths
    low, high = torch.stack(lengths.aminmax()).tolist()
    if low < 1 or high > time:
        raise ValueError(f"{name} held {low if low < 1 else high}; each must be from 1 to {time}")
    return lengths


def key_mask(lengths: Int[Tensor, "batch"], time: int) -> Bool[Tensor, "batch time"]:
    """mask[b, t] = t < lengths[b]"""
    return torch.arange(time, device=lengths.device) < lengths[:, None]
