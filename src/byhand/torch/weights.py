"""Weights and gradients to and from the flat dicts of arrays that every floor shares."""

import numpy as np
import torch
from torch import Tensor, nn


class Weights(nn.Module):
    """A module whose parameters come and go as a dict of arrays, under the names of its state_dict."""

    def load_params(self, params: dict[str, np.ndarray]):
        """Take these values, in their own floating-point type, on the device where the module is; gives back the module.

        Raises ValueError naming a parameter that is unknown, missing, misshapen or not finite.
        """
        own = dict(self.named_parameters())
        for name in params:
            if name not in own:
                raise ValueError(f"params had {name!r}, which this model lacks; it must have exactly {', '.join(own)}")
        for name, parameter in own.items():
            if name not in params:
                raise ValueError(f"params lacked {name!r}, of shape {tuple(parameter.shape)}")
            if np.shape(params[name]) != tuple(parameter.shape):
                raise ValueError(f"params[{name!r}] had shape {np.shape(params[name])}; it must be {tuple(parameter.shape)}")
            if not np.isfinite(params[name]).all():
                raise ValueError(f"params[{name!r}] was not finite; every entry must be a finite number")
        dtype = np.result_type(*params.values())  # one type for all, so that they can be multiplied
        if not np.issubdtype(dtype, np.floating):
            dtype = np.dtype(np.float64)
        for name, parameter in own.items():
            # a copy, so that training the module leaves the caller's arrays alone; the Parameter stays, and with it an optimizer's hold on it
            parameter.data = torch.from_numpy(np.array(params[name], dtype=dtype, order="C")).to(parameter.device)
            parameter.grad = None
        return self

    def params(self) -> dict[str, np.ndarray]:
        """A copy of every parameter."""
        return {name: _array(parameter) for name, parameter in self.named_parameters()}

    def grads(self) -> dict[str, np.ndarray]:
        """A copy of every parameter's gradient, zeros where none arrived."""
        return {name: _array(torch.zeros_like(p) if p.grad is None else p.grad) for name, p in self.named_parameters()}

    @property
    def plain_attention(self) -> bool:
        """Whether attention goes step by step instead of through scaled_dot_product_attention; set it to switch."""
        return any(module.plain for module in self.modules() if hasattr(module, "plain"))

    @plain_attention.setter
    def plain_attention(self, plain: bool):
        for module in self.modules():
            if hasattr(module, "plain"):
                module.plain = plain


def _array(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # NumPy has none
        tensor = tensor.float()
    return tensor.numpy().copy()
