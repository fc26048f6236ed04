"""A torch module's activations and gradients, seen through hooks. torch itself is never imported here."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .doors import checked


@dataclass
class Watched:
    """activations: each submodule's output under its dotted name, in the order of computing.
    gradients: the gradient that arrived at each of these outputs, in the order of arriving.

    A submodule with several outputs has .0, .1, … for them; the second call of one submodule in a pass ends in #2.
    """

    activations: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, Any] = field(default_factory=dict)


def _check_watch(module):
    if not hasattr(module, "named_modules"):
        raise ValueError(f"module was {type(module).__name__}; it must be a torch.nn.Module")


@checked(_check_watch)
@contextmanager
def watch(module: Any) -> Iterator[Watched]:
    """with watch(model) as seen: model(x).sum().backward()     then check.compare(seen, reference)

    Every submodule's output is recorded while the block runs; the module itself is "". PyTorch's fused encoder, used in eval mode without
    gradients, calls no submodules: watch with gradients on.
    """
    seen = Watched()
    handles = [part.register_forward_hook(_recorder(name, seen)) for name, part in module.named_modules()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _recorder(name, seen):
    def hook(_module, _inputs, output):
        parts = {name: output} if hasattr(output, "detach") else _numbered(name, output)
        for part, tensor in parts.items():
            part = _unused(part, seen.activations)
            seen.activations[part] = tensor.detach().clone()
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient, part=part: seen.gradients.update({part: gradient.detach().clone()}))

    return hook


def _numbered(name, output):
    values = output if isinstance(output, (tuple, list)) else ()
    return {f"{name}.{i}": value for i, value in enumerate(values) if hasattr(value, "detach")}


def _unused(name, taken):
    number = 1
    while (f"{name}#{number}" if number > 1 else name) in taken:
        number += 1
    return f"{name}#{number}" if number > 1 else name
