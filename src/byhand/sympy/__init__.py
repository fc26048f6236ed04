"""The floor of exact numbers and derivations: the same rooms as byhand.numpy, on SymPy matrices.

Each room has the operation's definition, which serves three times: on exact numbers it gives exact values, on symbols it is
differentiated to derive the gradient's rule, and in the whole network it is linearised to give one entry's derivative to
any number of digits. One sequence is one sp.Matrix with a row for each position; a vector is a matrix of one row.
"""

from . import attention, decoder, embedding, feed_forward, linear, lora, loss, norm, optimizer, position, preference, softmax, transformer
from .derivation import Derivation
from .forward_mode import witness, witnesses
