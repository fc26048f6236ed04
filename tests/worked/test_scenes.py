import numpy as np
import pytest

from byhand import worked

TABLE = np.array([[0.5, -1.0], [0.25, 2.0]])


def test_a_row_is_lifted_and_scaled():
    shown = worked.lifted_row(TABLE, 1, ["je", "suis"], 2.0)
    assert shown.alt == "The row of suis, [0.25, 2], is lifted out of the table; times 2 it is [0.5, 4]"
    with pytest.raises(ValueError, match="token was 2"):
        worked.lifted_row(TABLE, 2, ["je", "suis"], 2.0)
    with pytest.raises(ValueError, match="words had 1"):
        worked.lifted_row(TABLE, 0, ["je"], 2.0)


def test_one_row_is_read_by_each_matrix():
    shown = worked.readings([1.0, 2.0], {"Q": TABLE, "K": np.eye(2)}, "je")
    assert shown.alt == "The row [1, 2] of je through 2 matrices: Q [1, 3]; K [1, 2]"
    with pytest.raises(ValueError, match="0 matrices"):
        worked.readings([1.0, 2.0], {})
    with pytest.raises(ValueError, match="K had shape"):
        worked.readings([1.0, 2.0], {"K": np.ones(2)})


def test_the_road_says_each_row_on_it():
    shown = worked.road([("X", [1.0, 0.0], ""), ("X + f(X)", [1.5, -1.0], "+ f"), ("N", [1.0, -1.0], "norm")])
    assert shown.alt.endswith("X [1, 0]; X + f(X) [1.5, −1]; N [1, −1]")
    with pytest.raises(ValueError, match="steps held rows of shapes"):
        worked.road([("X", [1.0, 0.0], ""), ("Y", [1.0], "norm")])
