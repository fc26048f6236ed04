"""Forward and hand-written backward, side by side, in NumPy alone."""

from . import (
    attention,
    decoder,
    embedding,
    feed_forward,
    generation,
    heads,
    layers,
    linear,
    lora,
    loss,
    norm,
    optimizer,
    position,
    preference,
    quantize,
    rows,
    sampling,
    softmax,
    step,
    transformer,
)  # fmt: skip
