"""int8 weights and caches: half a step of error, a quarter or an eighth of the bytes, and a model that still decodes."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand import toy
from byhand.check import agreement
from byhand.numpy import decoder
from byhand.numpy.quantize import (
    dequantize,
    dequantize_cache,
    dequantize_params,
    error,
    quantize,
    quantize_cache,
    quantize_params,
    quantized_linear,
)

seeds = st.integers(0, 2**32 - 1)


@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=3), axis=st.sampled_from((-1, 0, None)), size=st.sampled_from((1e-9, 1.0, 1e9)), seed=seeds)
def test_no_number_moves_by_more_than_half_a_step(shape, axis, size, seed):
    x = size * np.random.default_rng(seed).normal(size=shape)
    quantized = quantize(x, axis)
    assert quantized.values.dtype == np.int8 and abs(quantized.values.astype(int)).max() == 127
    assert quantized.scale.size == (1 if axis is None else x.size // x.shape[axis])
    assert (abs(x - dequantize(quantized)) <= quantized.scale * (0.5 + 1e-12)).all()
    assert error(x, quantized).largest == abs(x - dequantize(quantized)).max()
    assert error(x, quantized).relative == pytest.approx(np.linalg.norm(x - dequantize(quantized)) / np.linalg.norm(x))


def test_a_row_by_hand():
    quantized = quantize(np.array([[2.54, -1.0, 0.013, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    assert quantized.values.tolist() == [[127, -50, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(quantized.scale, [[0.02], [0.0]], rtol=1e-14)
    np.testing.assert_allclose(dequantize(quantized), [[2.54, -1.0, 0.02, 0.0], [0.0] * 4], rtol=1e-14)
    assert error(np.zeros((1, 3)), quantize(np.zeros((1, 3)))) == (0.0, 0.0)


@given(seed=seeds)
def test_symmetric_and_settled(seed):
    x = np.random.default_rng(seed).normal(size=(3, 6)).astype(np.float32)
    assert (quantize(-x).values == -quantize(x).values).all()
    once = quantize(x)
    twice = quantize(dequantize(once))
    assert (twice.values == once.values).all() and agreement(twice.scale, once.scale) < 1e-6
    assert once.scale.dtype == dequantize(once).dtype == np.float32


def test_one_scale_a_row_is_nearer_than_one_for_all_when_rows_differ_in_size():
    x = np.random.default_rng(0).normal(size=(4, 64)) * np.array([[1e-2], [1.0], [1.0], [1e2]])
    by_row, by_array = (abs(x - dequantize(quantize(x, axis))).max(-1) / abs(x).max(-1) for axis in (-1, None))
    assert by_row.max() < 0.005 and by_array[0] == 1.0  # the small row is lost altogether


@given(seed=seeds)
def test_a_product_with_small_numbers_is_the_product_with_what_they_stand_for(seed):
    rng = np.random.default_rng(seed)
    x, w, b = rng.normal(size=(2, 3, 5)), rng.normal(size=(5, 4)), rng.normal(size=4)
    quantized = quantize(w, axis=0)
    assert agreement(quantized_linear(x, quantized, b), x @ dequantize(quantized) + b) < 1e-14
    assert agreement(quantized_linear(x, quantized, b), x @ w + b) < 0.05
    assert quantized_linear(x.astype(np.float32), quantize(w.astype(np.float32), axis=0)).dtype == np.float32


def test_a_models_weights_in_int8():
    case = toy.decoder()
    quantized = quantize_params(case.params)
    assert all((quantized[name] is value) for name, value in case.params.items() if value.ndim == 1)
    bytes_before = sum(value.nbytes for value in case.params.values() if value.ndim == 2)
    bytes_after = sum(quantized[name].nbytes for name, value in case.params.items() if value.ndim == 2)
    numbers = bytes_before // 8
    assert numbers < bytes_after < numbers * 2.4  # a byte each, and the scales, which weigh much in matrices so small
    logits = decoder.forward(case.params, case.config, case.decoder_input).logits
    nearly = decoder.forward(dequantize_params(quantized), case.config, case.decoder_input).logits
    assert 1e-4 < agreement(nearly, logits) < 0.1
    assert quantized["embedding"].scale.shape == (9, 1) and quantized["output.w"].scale.shape == (1, 9)


def test_a_cache_in_int8_takes_its_bytes_and_goes_on_with_a_small_error():
    case = toy.decoder()
    kv_cache = decoder.forward(case.params, case.config, case.decoder_input).kv_cache
    quantized = quantize_cache(kv_cache)
    batch, layers, time, heads, d_k, d_v = 3, 2, 7, 2, 8, 5
    assert quantized.nbytes == batch * layers * time * heads * (d_k + d_v + 2 * 8)  # two scales a head and position
    restored = dequantize_cache(quantized)
    for mine, right in zip(restored.keys + restored.values, kv_cache.keys + kv_cache.values, strict=True):
        assert agreement(mine, right) < 0.5 / 127 + 1e-12
    new = case.decoder_input[:, :1]
    logits = decoder.forward(case.params, case.config, new, kv_cache).logits
    nearly = decoder.forward(case.params, case.config, new, restored).logits
    assert 1e-5 < agreement(nearly, logits) < 0.05


def test_what_was_quantised_stays_while_the_cache_grows():
    case = toy.decoder()
    cache = quantize_cache(decoder.forward(case.params, case.config, case.decoder_input).kv_cache)
    first = [keys.values.copy() for keys in cache.keys]
    for t in range(3):
        cache = quantize_cache(decoder.forward(case.params, case.config, case.decoder_input[:, t : t + 1], dequantize_cache(cache)).kv_cache)
    assert all((now.values[:, :, :7] == then).all() for now, then in zip(cache.keys, first, strict=True))


@pytest.mark.parametrize(("x", "words"), [
    (np.ones(3, int), "x had dtype int64"),
    (np.ones((0, 3)), r"shape \(0, 3\)"),
    (np.array([1.0, np.nan]), "x held (-inf|nan) at .*; every entry must be a finite number"),
    (np.array([1.0, -np.inf]), "x held (-inf|nan) at .*; every entry must be a finite number"),
])  # fmt: skip
def test_what_cannot_be_quantised(x, words):
    with pytest.raises(ValueError, match=words):
        quantize(x)


def test_scales_along_the_wrong_axis_and_rows_that_do_not_fit():
    w = np.random.default_rng(0).normal(size=(5, 4))
    with pytest.raises(ValueError, match=r"w had scales of shape \(5, 1\); it must be \(1, 4\)"):
        quantized_linear(np.ones((2, 5)), quantize(w))
    with pytest.raises(ValueError, match=r"x had shape \(2, 4\)"):
        quantized_linear(np.ones((2, 4)), quantize(w, axis=0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@given(exponent=st.integers(-1075, 1020), spread=st.integers(0, 40), seed=seeds)
def test_the_bound_holds_from_the_smallest_numbers_to_the_largest(dtype, exponent, spread, seed):
    rng = np.random.default_rng(seed)
    limit = np.finfo(dtype)
    wide = np.ldexp(rng.normal(size=(3, 8)), exponent - rng.integers(0, spread + 1, (3, 8)))
    x = np.clip(wide, float(limit.min), float(limit.max)).astype(dtype)
    for axis in (-1, None):
        quantized = quantize(x, axis)
        back = dequantize(quantized)
        assert (abs(quantized.values.astype(int)) <= 127).all() and np.isfinite(back).all()
        assert (back * np.sign(x) >= 0).all()  # no sign has turned
        step = quantized.scale.astype(np.longdouble)
        rounding = 256 * np.finfo(back.dtype).eps * step + np.finfo(back.dtype).smallest_subnormal
        assert (abs(x.astype(np.longdouble) - back.astype(np.longdouble)) <= step / 2 + rounding).all()
        found = error(x, quantized)
        assert np.isfinite(found).all() and (found.relative > 0) == (found.largest > 0)
        assert found.relative < (0.02 if axis == -1 and spread == 0 and exponent > -1060 else 1.01)


def test_small_numbers_by_hand():
    halves = quantize(np.array([[1e-5, -2e-6, 5e-6, 1e-6]], np.float16))
    assert halves.values[0, 0] == 127 and halves.scale.dtype == np.float32 and 0 < error(np.array([[1e-5, -2e-6, 5e-6, 1e-6]], np.float16), halves).largest < 1
    unit = np.finfo(np.float32).smallest_subnormal
    small = quantize(np.array([[143 * unit, -71 * unit]], np.float32))
    assert small.values.tolist() == [[127, -63]] and small.scale.dtype == np.float64
    unit = np.finfo(np.float64).smallest_subnormal
    for count in (1, 20, 127, 128, 190, 1000):
        x = np.array([[count * unit, -unit, 0.0]])
        quantized = quantize(x)
        assert (abs(x - dequantize(quantized)) <= quantized.scale / 2).all() and quantized.values.max() > 0
    largest = np.finfo(np.float64).max
    assert np.isfinite(dequantize(quantize(np.array([largest, -largest, 1.0])))).all()


@pytest.mark.parametrize("x", [[1.0], np.ones(2, int), np.ones(2, np.longdouble), np.ones(0)])
def test_other_kinds_are_refused(x):
    with pytest.raises(ValueError, match="x (was|had)"):
        quantize(x)


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4)])
def test_only_a_matrix_multiplies(shape):
    with pytest.raises(ValueError, match=rf"w had values of shape {re.escape(str(shape))}; it must be \(d_in, d_out\)"):
        quantized_linear(np.ones((2, 3)), quantize(np.ones(shape), axis=0))


@pytest.mark.parametrize("axis", [0, -1, None])
def test_zeros_are_stored_as_zeros_and_divided_by_nothing(axis):
    x = np.zeros((2, 3))
    if axis is not None:
        x[0, 0] = 254.0
    with np.errstate(divide="raise", invalid="raise"):
        stored = quantize(x, axis)
    assert (dequantize(stored) == x).all() and stored.values.max() == (0 if axis is None else 127) and stored.scale.max() == (0 if axis is None else 2)
