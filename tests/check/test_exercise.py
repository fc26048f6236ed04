import numpy as np

from byhand.check.exercise import attempt


def halve(x):
    return x / 2


def test_right():
    verdict = attempt(lambda x: 0.5 * x, halve, np.array([[1.0, 3.0]]))
    assert verdict and "Right" in repr(verdict)


def test_not_written_yet():
    assert "nothing yet" in repr(attempt(lambda x: None, halve, np.ones(2)))


def test_shape_is_looked_at_first():
    verdict = attempt(lambda x: x.T / 2, halve, np.ones((2, 3)))
    assert not verdict and "(3, 2); it must be (2, 3)" in repr(verdict)


def test_a_known_mistake_is_named():
    verdict = attempt(lambda x: x, halve, np.ones(3), mistakes={"the half is forgotten": lambda x: x})
    assert not verdict and "the half is forgotten" in repr(verdict)


def test_an_unknown_mistake_is_placed():
    verdict = attempt(lambda x: np.array([0.5, 7.0, 0.5]), halve, np.ones(3), mistakes={"forgotten": lambda x: x})
    assert not verdict and "1 of 3 entries differ; the first at (1,): 7, and it must be 0.5" in repr(verdict)


def test_nan_is_never_right():
    assert not attempt(lambda x: x * np.nan, halve, np.ones(3))


def test_tuples():
    assert attempt(lambda x: (x, x / 2), lambda x: (x, halve(x)), np.ones(3))
    assert "2 arrays wanted" in repr(attempt(lambda x: (x,), lambda x: (x, x), np.ones(3)))
