"""A module of byhand.torch, or of its kind, in the form that check.invariants takes. torch itself is never imported here."""

from types import SimpleNamespace
from typing import Any

import numpy as np

Array = np.ndarray


class TorchModel:
    """forward and gradients of a torch module, with arrays outside

    model = check.TorchModel(module);  check.invariants(model.params, config, case, model.forward, model.gradients)

    The module is called as byhand.torch's are: module(*tokens and lengths, activations=a dict to be filled with its intermediate tensors).
    """

    def __init__(self, module: Any):
        if not hasattr(module, "named_parameters"):
            raise ValueError(f"module was {type(module).__name__}; it must be a torch.nn.Module")
        self.module = module
        self.params = {name: _array(parameter) for name, parameter in module.named_parameters()}

    def forward(self, params: dict[str, Array], config: Any, *inputs: Any) -> SimpleNamespace:
        """What the module computes with its own parameters; `params` and `config` are there for the signature's sake."""
        tensors: dict[str, Any] = {}
        logits = self.module(*inputs, activations=tensors)
        for tensor in tensors.values():
            if tensor.requires_grad:
                tensor.retain_grad()
        return SimpleNamespace(logits=_array(logits), activations={name: _array(t) for name, t in tensors.items()}, cache=(logits, tensors))

    def gradients(self, dlogits: Array, cache: Any) -> SimpleNamespace:
        """The parameters' gradients and those of the recorded stages, by autograd."""
        logits, tensors = cache
        self.module.zero_grad()
        logits.backward(logits.new_tensor(np.asarray(dlogits)))
        stages = {name: _array(tensor.grad) for name, tensor in tensors.items() if tensor.requires_grad and tensor.grad is not None}
        params = {name: _array(p.grad) for name, p in self.module.named_parameters() if p.grad is not None}
        return SimpleNamespace(params=params, stages=stages)


def _array(tensor):
    return tensor.detach().cpu().numpy().copy()
