"""One entry's derivative through the whole network, in forward mode: value + slope·w, carried stage by stage.

The entry is moved by w. Each stage is its definition, put on `value + slope·w` and differentiated by SymPy with respect to w at
w = 0: no derivative's rule is written down, and nothing of a backward pass is used. The slopes are evaluated with as many digits
as asked for, because their closed forms soon grow out of hand.
"""

from collections.abc import Iterable
from itertools import product
from numbers import Integral

import sympy as sp

from ..parameters import decoder_shapes, encoder_decoder_shapes
from ..toy import check_case
from . import decoder, linear, loss, transformer
from .carry import Closed, Digits
from .exact import setting
from .passes import check_digits, fitting


def witness(case, parameter: str, index: int | Iterable[int], digits: int | None = 30) -> sp.Expr:
    """∂L/∂parameter[index], L the case's own loss, to `digits` significant digits; with digits=None in closed form

    case: config, params (exact numbers or floats), source, decoder_input, targets, lengths, reduction and smoothing, as byhand.toy
    makes them; without a source it is a decoder stack's. A derivative smaller than 10^−digits is returned as 0. A closed form takes
    seconds in the decoder, very long in the encoder. Raises ValueError for an unknown parameter, IndexError for an index outside it.
    """
    return _derivatives(case, parameter, [index], digits)[0]


def witnesses(case, parameter: str, digits: int | None = 30, indices: Iterable | None = None) -> sp.ImmutableMatrix:
    """∂L/∂parameter, every entry on its own as by `witness`; a vector is one row. With indices those entries alone, in one row."""
    if indices is not None:
        return sp.ImmutableMatrix([_derivatives(case, parameter, list(indices), digits)])
    shape = _parameters(case, parameter)[parameter].shape
    return sp.ImmutableMatrix(*shape, _derivatives(case, parameter, list(product(*map(range, shape))), digits))


def _derivatives(case, parameter, indices, digits):
    check_digits(digits)
    params = _parameters(case, parameter)
    value = params[parameter]
    places = [_place(parameter, value.shape, index) for index in indices]
    carry = Closed() if digits is None else Digits(digits)
    found = []
    with carry.precision():
        at_rest = {name: carry.start(other) for name, other in params.items()}
        for place in places:
            direction = sp.ImmutableMatrix(*value.shape, lambda i, j: int((i, j) == place))
            slope = _loss(carry, case, at_rest | {parameter: carry.start(value, direction)}).slope
            found.append(sp.Integer(0) if slope is None else carry.rounded(slope[0]))
    return found


def _loss(carry, case, started):
    """The case's loss, carried from its parameters."""
    if case.source is None:
        out = decoder.run(carry, started, case.config, case.decoder_input, case.target_lengths)
    else:
        out = transformer.run(carry, started, case.config, case.source, case.decoder_input, case.source_lengths, case.target_lengths)
    weights = loss.position_weights(case.targets, lengths=case.target_lengths, reduction=case.reduction)
    parts = [
        carry.apply(loss.weighted_loss, z, targets=tuple(map(int, row)), weights=weight, smoothing=setting(case.smoothing))
        for z, row, weight in zip(out.logits, case.targets, weights, strict=True)
    ]
    return carry.apply(linear.add, *parts)


def _parameters(case, parameter):
    """All of them as exact matrices, `parameter` among them."""
    check_case(case)
    shapes = decoder_shapes if case.source is None else encoder_decoder_shapes
    params = fitting(case.params, shapes(case.config))
    if not isinstance(parameter, str) or parameter not in params:
        raise ValueError(f"parameter was {parameter!r}; it must be one of {', '.join(params)}")
    return params


def _place(parameter, shape, index):
    """(row, column) of an entry; a vector, which is one row here, is indexed by one number."""
    place = (index,) if isinstance(index, Integral) else tuple(index) if isinstance(index, Iterable) else ()
    place = (0, *place) if len(place) == 1 and shape[0] == 1 else place
    if len(place) != 2 or not all(isinstance(i, Integral) and 0 <= i < n for i, n in zip(place, shape)):
        raise IndexError(f"index was {index!r}; {parameter} has {shape[0]} × {shape[1]} entries")
    return place
