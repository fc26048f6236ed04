"""Weights and gradients to and from the flat dicts of arrays that every floor shares."""

import numpy as np
import torch
from torch import Tensor, nn

from ..parameters import check_params
from .attention import MultiHeadAttention


class Weights(nn.Module):
    """A module whose parameters come and go as a dict of arrays, under the names of its state_dict."""

    def load_params(self, params: dict[str, np.ndarray]):
        """Take these values, in their own floating-point type, on the device where the module is; gives back the module.

        Under FSDP2 (fully_shard) every rank calls this with the whole arrays, and keeps its part of them.
        Raises ValueError naming a parameter that is unknown, missing, misshapen, not floating-point or not finite, or, once sharded, of another type.
        """
        if not isinstance(params, dict):
            raise ValueError(f"params was {type(params).__name__}; it must be a dict of arrays")
        for module in self.modules():
            if hasattr(module, "reshard"):  # FSDP2: between forward and backward the parameters are whole for a while, and what is written is lost
                module.reshard()
        own = dict(self.named_parameters())
        params = {name: np.asarray(value) for name, value in params.items()}
        check_params(params, {name: tuple(parameter.shape) for name, parameter in own.items()}, half=True)
        dtype = np.result_type(*params.values())  # one type for all, so that they can be multiplied
        for name, parameter in own.items():
            if _is_sharded(parameter):
                _load_sharded(parameter, name, params[name].astype(dtype, copy=False))
                continue
            # a copy, so that training the module leaves the caller's arrays alone; the Parameter stays, and with it an optimizer's hold on it
            parameter.data = torch.from_numpy(np.array(params[name], dtype=dtype, order="C")).to(parameter.device)
            parameter.grad = None
        return self

    def params(self) -> dict[str, np.ndarray]:
        """A copy of every parameter; under FSDP2 the whole arrays, on every rank, and every rank must call this."""
        return {name: _array(parameter) for name, parameter in self.named_parameters()}

    def grads(self) -> dict[str, np.ndarray]:
        """A copy of every parameter's gradient, zeros where none arrived; under FSDP2 as params."""
        return {name: _array(torch.zeros_like(p) if p.grad is None else p.grad) for name, p in self.named_parameters()}

    @property
    def plain_attention(self) -> bool:
        """Whether attention goes step by step instead of through scaled_dot_product_attention; set it to switch."""
        return all(module.plain for module in self.modules() if isinstance(module, MultiHeadAttention))

    @plain_attention.setter
    def plain_attention(self, plain: bool):
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                module.plain = plain


def _is_sharded(tensor: Tensor) -> bool:
    """Whether it is a DTensor, of which this process holds a part."""
    return hasattr(tensor, "full_tensor")


def _load_sharded(parameter, name, value):
    from torch.distributed.tensor import distribute_tensor

    value = torch.from_numpy(np.array(value, order="C"))
    if value.dtype != parameter.dtype:
        raise ValueError(f"parameter {name!r} had dtype {value.dtype}; the module is sharded in {parameter.dtype}, and must be given that, or loaded before")
    with torch.no_grad():
        parameter.copy_(distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements))
    parameter.grad = None


def _array(tensor: Tensor) -> np.ndarray:
    if _is_sharded(tensor):
        tensor = tensor.full_tensor()
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # NumPy has none
        tensor = tensor.float()
    return tensor.clone().numpy()  # copied before NumPy sees it: FSDP2 could no longer free a storage that NumPy has seen


def numpy_default() -> np.dtype:
    """PyTorch's default dtype, as NumPy calls it (float32 where NumPy lacks it)."""
    return np.dtype({torch.float64: "float64", torch.float16: "float16"}.get(torch.get_default_dtype(), "float32"))
