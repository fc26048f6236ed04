"""Keeping a forward pass's intermediate tensors under dotted names."""

import torch


class Record:
    """Puts tensors into a dict under dotted names, or nowhere when the dict is None.

    `record("out", y)` keeps y and returns it, so that it can wrap an expression; `record.inside("norm_1")` puts "norm_1." before
    every name that follows. What is kept is the tensor of the graph itself, so `retain_grad()` works on it.
    """

    def __init__(self, kept: dict[str, torch.Tensor] | None, prefix: str = ""):
        self.kept, self.prefix = kept, prefix

    @property
    def on(self) -> bool:
        return self.kept is not None

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if self.on:
            self.kept[self.prefix + name] = tensor
        return tensor

    def inside(self, name: str) -> "Record":
        return Record(self.kept, f"{self.prefix}{name}.") if self.on else self


nothing = Record(None)
