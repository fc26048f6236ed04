"""Whatever is done to an array, along every axis and at every size, is named for what it is, and what only resembles it is not."""

from itertools import combinations, permutations
from math import isqrt, prod, sqrt

import numpy as np
import pytest

from byhand.check import diagnose
from byhand.check.diagnosis import factor_text

UNKNOWN = "it differs in no way known here"


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("sign", [1, -1])
def test_every_factor_that_may_stand_for_something(sign):
    factors = {f"{n}": n for n in (2, 3, 64, 65, 4095)} | {f"1/{n}": 1 / n for n in (2, 3, 64, 65, 4095)}
    factors |= {f"√{n}": sqrt(n) for n in range(2, 70) if isqrt(n) ** 2 != n} | {f"1/√{n}": 1 / sqrt(n) for n in (2, 3, 4094, 4095)}
    factors |= {f"{n}/{n - 1}": n / (n - 1) for n in range(3, 65)} | {f"{n - 1}/{n}": (n - 1) / n for n in range(3, 65)}
    for name, factor in factors.items():
        name, factor = ("" if sign > 0 else "-") + name, sign * factor
        shown = f"{factor:.5g} times "
        assert factor_text(factor) == shown + ("" if shown == f"{name} times " else f"({name}) ") + "what it should be"
        if "/" in name or "√" in name:  # another number is none of them, though it looks alike
            assert factor_text(factor * (1 + 1e-8)).endswith(f" times ({name}) what it should be")
            assert factor_text(factor * (1 + 3e-7)).endswith(" times what it should be")
    for other in (65 / 64, 64 / 65, 1 / 4096, 1.5e-6, 0.1234):
        assert factor_text(sign * other) == f"{sign * other:.5g} times what it should be"
    assert factor_text(-1 - 1e-8) == "the sign is wrong everywhere" != factor_text(-1 - 3e-7)


def test_a_factor_is_found_whatever_the_size_but_for_one_number_that_any_factor_would_explain():
    for shape in ((2,), (1, 2), (3, 4), (2, 3, 4)):
        right = drawn(*shape)
        assert diagnose(0.1234 * right, right) == "0.1234 times what it should be"
        assert diagnose(0 * right, right) == "it is all 0" and diagnose(right, 0 * right).startswith(("it differs", "every"))
    assert diagnose(np.array([0.5]), np.array([1.5])) == "0.33333 times (1/3) what it should be"
    assert diagnose(np.array(-2.0), np.array(2.0)) == "the sign is wrong everywhere"
    assert diagnose(np.array([0.1234]), np.array([1.0])).startswith(UNKNOWN)
    small = np.array([1e-3, 2e-4])
    assert diagnose(1e4 * small, small) == "10000 times what it should be"


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 3, 3), (3, 2, 3), (3, 3, 2), (2, 2, 2), (2, 4, 3, 4)])
def test_two_axes_exchanged(shape):
    right = drawn(*shape)
    for i, j in combinations(range(len(shape)), 2):
        if shape[i] == shape[j]:
            assert diagnose(right.swapaxes(i, j), right) == f"transposed: axes {i} and {j} are exchanged"


@pytest.mark.parametrize("n", [4, 6, 8, 9, 12, 15])
@pytest.mark.parametrize("before", [(), (3,), (3, 5)], ids=str)
def test_blocks_that_alternate_or_stand_in_another_order(n, before):
    """The last axis, and the first."""
    right, last = drawn(*before, n), len(before)
    for blocks in (b for b in range(2, n // 2 + 1) if n % b == 0):
        width = n // blocks
        apart = right.reshape(*before, blocks, width)
        mixed = apart.swapaxes(-1, -2).reshape(right.shape)
        words = f"interleaved: what should be {blocks} blocks of {width} along axis {{}} (heads) alternates entry by entry"
        assert diagnose(mixed, right) == words.format(last)
        assert diagnose(np.moveaxis(mixed, -1, 0), np.moveaxis(right, -1, 0)) == words.format(0)
        if blocks <= 6:
            order = [1, 0, *range(2, blocks)]
            turned = apart[..., order, :].reshape(right.shape)
            words = f"the {blocks} blocks of {width} along axis {{}} (heads) are in the order {order}"
            assert diagnose(turned, right) == words.format(last)
            assert diagnose(np.moveaxis(turned, -1, 0), np.moveaxis(right, -1, 0)) == words.format(0)


def test_seven_blocks_are_slices():
    right, order = drawn(3, 14), [2, 3, 0, 1, *range(4, 14)]
    assert diagnose(right[:, order], right) == f"the slices along axis 1 are in the order {order}"


@pytest.mark.parametrize("shape", [(5,), (3, 5), (3, 4, 5), (2, 4, 3, 5), (2, 5, 3, 3, 2)], ids=str)
def test_slices_in_another_order_along_every_axis(shape):
    right = drawn(*shape)
    for axis, n in enumerate(shape):
        heads = " (heads)" if len(shape) == 4 and axis == 1 else ""
        for order in ([*range(1, n), 0], [*range(n)][::-1]) if n in (3, 5) or heads else ():
            words = "reversed" if order == [*range(n)][::-1] else f"in the order {order}"
            assert diagnose(np.take(right, order, axis), right) == f"the slices along axis {axis} are {words}{heads}"
    twice = np.take(right, [0, 0, *range(2, shape[-1])], -1)  # one slice stands in place of another: no order
    assert "in the order" not in diagnose(twice, right) and "only slice 1 of" in diagnose(twice, right)


def test_an_order_is_looked_for_among_as_many_as_64_slices():
    for n in (2, 64, 65):
        right = drawn(3, n, 2)
        found = diagnose(right[:, ::-1], right)
        assert (found == "the slices along axis 1 are reversed") == (n < 65), found
    assert diagnose(drawn(3, 2)[:, ::-1], drawn(3, 2)) == "the slices along axis 1 are reversed"
    right = drawn(2, 7, 2)
    assert diagnose(right[:, ::-1] * (1 + 1e-6), right, 1e-5) == "the slices along axis 1 are reversed" != diagnose(right[:, ::-1] * (1 + 1e-6), right)


@pytest.mark.parametrize("shape", [(9,), (8, 9), (9, 3, 8), (2, 9, 2, 3)], ids=str)
def test_only_some_slices_along_every_axis(shape):
    right = drawn(*shape)
    for axis, n in enumerate(shape):
        for wrong in ([n - 1], [0, 2], [*range(1, 7)], [*range(1, 8)]):
            if wrong[-1] >= n or len(wrong) >= n:
                continue
            mine = right.copy()
            np.moveaxis(mine, axis, 0)[wrong] *= 3
            listed = ", ".join(map(str, wrong[:6])) + ", …" * (len(wrong) > 6)
            slices, differ = ("slice", "differs") if len(wrong) == 1 else ("slices", "differ")
            assert diagnose(mine, right) == f"only {slices} {listed} of {n} along axis {axis} {differ}; there 3 times what it should be"


def test_the_fewest_slices_are_named_whichever_axis_they_are_of():
    for shape, place, words in (((4, 6), np.s_[:2, :2], "slices 0, 1 of 6 along axis 1"), ((6, 4), np.s_[:2, :2], "slices 0, 1 of 6 along axis 0")):
        right = drawn(*shape)
        mine = right.copy()
        mine[place] = 0
        assert diagnose(mine, right) == f"only {words} differ; there only slices 0, 1 of 4 along axis {1 - int(words[-1])} differ; there it is all 0"


@pytest.mark.parametrize("shape", [(3,), (2, 2), (4, 5), (2, 3, 4), (1, 4), (4, 1), (1, 1, 5)], ids=str)
def test_what_is_added_and_what_is_multiplied(shape):
    right, rows, width = drawn(*shape), prod(shape[:-1]), shape[-1]
    assert diagnose(right + 0.25, right) == "0.25 is added to every entry"
    row, column = drawn(width, seed=1), drawn(*shape[:-1], 1, seed=2)
    added, mean = diagnose(right + row, right), diagnose(right + column, right)
    gain, factor = diagnose(right * row, right), diagnose(right * column, right)
    if rows > 1 and width > 1:
        assert added == "every row is off by the same row, as when a bias is missing or added twice"
        assert mean == "every row is off by one number of its own, as when a mean is not taken away"
        assert gain == "every column has a factor of its own, as when γ is left out or multiplied twice"
        assert factor == "every row has a factor of its own"
        with np.errstate(all="raise"):  # nothing is divided by a row or a column of zeros
            for empty in (right * (np.arange(width) > 0), right * (np.arange(shape[-2]) > 0)[:, None]):
                assert diagnose(empty + 1 + row * column, empty).startswith(UNKNOWN)
    elif len(shape) > 1:  # with one row, or one column, any difference would be of these kinds
        assert added.startswith(UNKNOWN) or width == 1
        assert gain.startswith(UNKNOWN) or width == 1
        assert mean.startswith((UNKNOWN, f"{column.mean():.3g} is added")) and factor.startswith((UNKNOWN, f"{column.mean():.5g} times"))


def test_two_entries_off_by_the_same_are_no_pattern():
    assert diagnose(np.array([1.5, 3.5]), np.array([1.0, 3.0])).startswith(UNKNOWN)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)], ids=str)
def test_signs_lost(shape):
    right = drawn(*shape) + np.where(np.indices(shape).sum(axis=0) % 2, 5, -5)
    assert diagnose(np.abs(right), right) == "every entry has the right size, but some have the wrong sign"


# ---- other shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 4)], ids=str)
def test_axes_in_another_order(shape):
    right = drawn(*shape)
    for axes in list(permutations(range(len(shape))))[1:][:: max(1, len(shape) ** 2 // 4)]:
        turned = right.transpose(axes)
        if turned.shape != right.shape:
            back = tuple(int(i) for i in np.argsort(axes))
            assert diagnose(turned, right) == f"shape {turned.shape} for {right.shape}: transposed, axes {back}"


def test_six_axes_are_too_many_to_try():
    right = drawn(1, 2, 1, 3, 1, 2)
    assert diagnose(right.transpose(1, 0, 3, 2, 5, 4), right) == "shape (2, 1, 3, 1, 2, 1) for (1, 2, 1, 3, 1, 2), with the same entries in the same order"
    assert diagnose(right.transpose(3, 1, 0, 2, 5, 4), right) == "shape (3, 2, 1, 1, 2, 1) for (1, 2, 1, 3, 1, 2)"


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 3, 2)], ids=str)
def test_axes_merged_once_they_are_in_order(shape):
    """Heads merged without being brought beside each other, and the other way round."""
    x = drawn(*shape)
    axes = (1, 0, *range(2, len(shape)))
    merged = x.transpose(axes).reshape(-1)
    known = len(shape) <= 4
    words = f"shape {merged.shape} for {shape}"
    assert diagnose(x.reshape(-1), x) == f"{words}, with the same entries in the same order"
    assert diagnose(merged, x) == words + f", with the same entries once the right one's axes are taken in the order {axes}" * known
    assert diagnose(x, merged) == f"shape {shape} for {merged.shape}" + f", with the same entries once its axes are taken in the order {axes}" * known


BROADCAST = [((3,), (2, 3)), ((1, 3), (2, 3)), ((2, 1), (2, 3)), ((2, 1, 4), (2, 3, 4)), ((4,), (2, 3, 4)), ((), (2, 3))]


@pytest.mark.parametrize(("small", "large"), BROADCAST, ids=str)
def test_spread_or_not(small, large):
    x = drawn(*small)
    spread = np.broadcast_to(x, large)
    assert diagnose(x, spread) == f"shape {small} for {large}: the same numbers, but it was not spread over the further axes (broadcasting)"
    assert diagnose(spread, x) == f"shape {large} for {small}: the same numbers, but it was spread over the further axes (broadcasting)"
    assert diagnose(x + 1, spread) == f"shape {small} for {large}"


def test_what_does_not_broadcast():
    for one, other in (((2,), (2, 3)), ((2, 3), (2,)), ((2, 2), (2, 3)), ((1, 2, 3), (2, 4)), ((3, 2), (2, 3, 3))):
        assert diagnose(np.ones(one), np.full(other, 2.0)) == f"shape {one} for {other}"


@pytest.mark.parametrize("shape", [(3,), (3, 4), (2, 3, 4)], ids=str)
def test_not_yet_summed_or_averaged(shape):
    x = drawn(*shape) + 1
    for axis in range(len(shape)):
        for keep in (False, True):
            for word, total in (("summed", x.sum(axis, keepdims=keep)), ("averaged", x.mean(axis, keepdims=keep))):
                assert diagnose(x, total) == f"shape {shape} for {total.shape}: it is not yet {word} over axis {axis}"


# ---- other stages, and what is not finite -------------------------------------------------------


def test_a_path_comes_before_what_stands_elsewhere_and_both_before_a_factor():
    right, path, other = drawn(3, 4), drawn(3, 4, seed=1), drawn(3, 4, seed=2)
    words = {-1: "is missing from the sum", 1: "is added once too often", -2: "is subtracted where it must be added"}
    for name, array in (("path", path), ("other", other)):
        for times, said in words.items():
            assert diagnose(right + times * array, right, others={"other": other}, paths={"path": path}) == f"{name} {said}"
    assert diagnose(other, right, others={"zero": 0 * other, "short": other[:2], "other": other}) == "it is what other should be"
    assert diagnose(2 * right, right, others={"twice": 2 * right}) == "it is what twice should be"
    assert diagnose(2 * right, right, others={"twice": 2 * right}, paths={"same": right}) == "same is added once too often"
    assert diagnose(right, right, others={"same": right}) == "" == diagnose(right * (1 + 1e-7), right, 1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_counted(value):
    right = drawn(3, 4)
    mine = right.copy()
    mine[1, 2] = mine[2, 0] = value
    assert diagnose(mine, right) == f"{value} at [1, 2], the first of 2 entries that are not finite"


def test_how_far_off_it_is():
    right = drawn(4, 5)
    noise = drawn(4, 5, seed=1) / np.abs(right).max()
    noise /= np.abs(noise).max()
    place = [int(i) for i in np.unravel_index(np.abs(noise).argmax(), noise.shape)]
    for size, words in ((1e-4, "nearly right, off by 0.0001 "), (1e-2, UNKNOWN)):
        mine = right + size * np.abs(right).max() * noise
        found = diagnose(mine, right)
        assert found.startswith(words) and f"most at {place}: {mine[tuple(place)]:.6g} for {right[tuple(place)]:.6g}" in found
