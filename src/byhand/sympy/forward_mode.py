"""One entry's derivative through the whole network, in forward mode: value + slope·w, carried stage by stage.

The entry is moved by w. Each stage is its definition, put on `value + slope·w` and differentiated by SymPy with respect to w at
w = 0: no derivative's rule is written down, and nothing of a backward pass is used. The slopes are evaluated with as many digits
as asked for, because their closed forms soon grow out of hand.
"""

from collections.abc import Iterable
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
    check_digits(digits)
    params = _parameters(case, parameter)
    return _derivative(case, params, parameter, _place(parameter, params[parameter].shape, index), digits)


def witnesses(case, parameter: str, digits: int | None = 30) -> sp.ImmutableMatrix:
    """∂L/∂parameter, every entry on its own by `witness`; a vector is one row."""
    check_digits(digits)
    params = _parameters(case, parameter)
    shape = params[parameter].shape
    return sp.ImmutableMatrix(*shape, lambda i, j: _derivative(case, params, parameter, (i, j), digits))


def _derivative(case, params, parameter, place, digits):
    shape = params[parameter].shape
    direction = sp.ImmutableMatrix(*shape, lambda i, j: int((i, j) == place))
    if digits is None:
        slope = _loss(Closed(), case, params, {parameter: direction}).slope
        return sp.Integer(0) if slope is None else slope[0]
    carry = Digits(digits)
    with carry.precision():
        slope = _loss(carry, case, params, {parameter: direction}).slope
        return sp.Integer(0) if slope is None else carry.rounded(slope[0])


def _loss(carry, case, params, directions):
    """The case's loss, carried; directions: how the parameters move."""
    started = {name: carry.start(value, directions.get(name)) for name, value in params.items()}
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
