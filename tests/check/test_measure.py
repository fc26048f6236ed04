import numpy as np
import pytest

from byhand import check
from byhand.check.measure import FLOOR


def test_the_measure_by_hand():
    assert check.agreement([1.0, -4.0], [1.0, -3.0]) == 0.25
    assert check.agreement([0.0, 1e-9], [0.0, 0.0]) == pytest.approx(1e-9 / FLOOR)  # two that are nearly 0 are not asked for relative precision
    assert check.agreement(2.0, 2.0) == 0
    assert check.agreement(np.float32(1), 1 + 2**-20) == pytest.approx(2**-20, rel=1e-5)


def test_the_place_is_where_it_is_worst():
    a, b = np.zeros((2, 3)), np.zeros((2, 3))
    a[0, 1], a[1, 2], b[1, 2] = 1, 5, 2
    found = check.difference(a, b)
    assert found == (0.6, (1, 2), (5.0, 2.0), 5.0)


def test_the_worst_of_a_dict_counts():
    assert check.agreement({"a": [1.0], "b": [1.0]}, {"b": [2.0], "a": [1.0]}) == 0.5


def test_nan_and_infinities():
    nan, inf = float("nan"), float("inf")
    assert check.agreement([1.0, nan], [1.0, 2.0]) == inf
    assert check.agreement([1.0, inf], [1.0, 2.0]) == inf
    assert check.agreement([1.0, inf], [1.0, -inf]) == inf
    assert check.agreement([1.0, nan, inf], [1.0, nan, inf]) == 0


def test_a_tensor_and_a_sympy_matrix_are_arrays_too():
    import sympy
    import torch

    exact = sympy.Matrix([[1, sympy.sqrt(2)]])
    assert check.agreement(torch.tensor([[1, 2**0.5]], dtype=torch.float64, requires_grad=True), exact) < 1e-15
    assert check.agreement(torch.tensor([1.0], dtype=torch.bfloat16), [1.0]) == 0


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (np.zeros(2), np.zeros(3), r"had shape \(2,\) and the other \(3,\)"),
        (np.zeros((2, 1)), np.zeros((2, 2)), "must be the same"),  # nothing is broadcast
        (np.zeros(0), np.zeros(0), "at least one entry"),
        ({"a": 1}, {"b": 1}, "same names.* a, b"),
        ({}, {}, "at least one; only one of them has any$"),
        (dict.fromkeys("fedcba", 1), {"a": 1}, "only one of them has b, c, d, e$"),
        ({"a": 1}, [1], "both be dicts, or neither"),
        (["x"], [1], "array of real numbers"),
    ],
)
def test_what_cannot_be_compared(a, b, words):
    with pytest.raises(ValueError, match=words):
        check.agreement(a, b)


def test_what_the_floor_alone_would_let_pass_is_too_small_to_tell():
    def holds(a, b, bound=1e-9):
        return check.difference(a, b).holds(bound)

    assert holds([1.0, 0.0], [1.0, 1e-13]) is True  # small entries of an array that is not small
    assert holds([0.0], [1e-13]) is None and holds([2e-13], [1e-13]) is None and holds([1e-10], [0.0], 1e-6) is None
    assert holds([0.0, 0.0], [0.0, 0.0]) is True  # a gradient that must be 0, exactly so on both sides
    assert holds([1e-7], [1e-7 * (1 + 1e-12)]) is True  # by their own size too
    assert holds([1e-7], [1e-7 * (1 + 1e-6)]) is None
    assert holds([1e-3], [1e-3 * (1 + 1e-6)]) is False and holds([1e-10], [0.0]) is False
    assert holds([np.nan], [1.0]) is False and holds([np.nan], [0.0]) is False
