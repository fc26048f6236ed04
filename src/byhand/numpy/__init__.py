"""Forward and hand-written backward, side by side, in NumPy alone."""

from . import attention, embedding, feed_forward, linear, loss, norm, optimizer, position, softmax, step, transformer

__all__ = ["attention", "embedding", "feed_forward", "linear", "loss", "norm", "optimizer", "position", "softmax", "step", "transformer"]
