"""The same rooms in PyTorch: nn.Modules whose gradients come from autograd, on any device and in any dtype."""

from . import attention, decoder, embedding, feed_forward, linear, loss, norm, optimizer, position, softmax, step, transformer
