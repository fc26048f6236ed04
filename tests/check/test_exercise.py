import numpy as np
import pytest

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


def _update(w, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2
    return w - m / np.sqrt(v), m, v


def _update_in_place(w, g, m, v):
    m *= 0.9
    m += 0.1 * g
    v *= 0.98
    v += 0.02 * g * g
    w -= m / np.sqrt(v)
    return w, m, v


def test_a_right_answer_may_be_written_in_place():
    sample = (*np.random.default_rng(0).normal(size=(3, 4)), np.full(4, 0.5))
    before = [a.copy() for a in sample]
    assert attempt(_update_in_place, _update, *sample)
    assert attempt(_update, _update_in_place, *sample)  # so may the reference
    assert all((a == b).all() for a, b in zip(sample, before))


def test_a_wrong_answer_that_turns_its_list_round_is_refused():
    def through(jacobians, g):
        for j in reversed(jacobians):
            g = j.T @ g
        return g

    def first_layer_first(jacobians, g):
        jacobians.reverse()
        return through(jacobians, g)

    rng = np.random.default_rng(0)
    assert not attempt(first_layer_first, through, list(rng.normal(size=(3, 2, 2))), rng.normal(size=2))


def test_mistakes_get_arguments_of_their_own_and_so_does_what_is_nested():
    def doubled(parts):
        parts["x"] *= 2
        return parts["x"]

    def twice_doubled(parts):
        return doubled(parts) * 2

    parts = {"x": np.ones(2)}
    assert attempt(doubled, lambda parts: 2 * parts["x"], parts, mistakes={"doubled twice": twice_doubled})
    verdict = attempt(twice_doubled, lambda parts: 2 * parts["x"], parts, mistakes={"never": lambda p: p["x"], "doubled twice": twice_doubled})
    assert "when doubled twice" in repr(verdict) and parts["x"].tolist() == [1, 1]


def test_it_has_the_measure_of_the_book():
    assert not attempt(lambda x: 0 * x, lambda x: 1e-10 * x, np.ones(3))  # zeros, where 1e-10 is wanted
    assert "too small to tell" in repr(attempt(lambda x: 0 * x, lambda x: 1e-13 * x, np.ones(3)))
    assert attempt(lambda x: 1e-13 * x, lambda x: 1e-13 * x, np.ones(3))
    assert attempt(lambda x: x + np.array([0, 1e-10]), lambda x: x, np.array([1.0, 0.0]))  # an entry of 0 beside one of 1
    assert not attempt(lambda x: x * (1 + 1e-8), lambda x: x, np.ones(3))


def test_infinities_are_entries_like_others():
    mask = np.array([[0.0, -np.inf], [0.0, 0.0]])
    assert attempt(lambda x: x + 0, lambda x: x, mask)
    verdict = attempt(lambda x: np.where(x == 0, 1e-2, x), lambda x: x, mask)
    assert not verdict and "3 of 4 entries differ; the first at (0, 0)" in repr(verdict)
    assert not attempt(lambda x: -x, lambda x: x, mask)


def test_what_is_no_array_is_named():
    import functools

    import torch

    assert "the function returns nothing yet" in repr(attempt(functools.partial(lambda x: None), halve, np.ones(2)))
    assert attempt(lambda x: torch.tensor(x / 2, requires_grad=True), halve, np.ones(2))
    leaf = torch.ones(2, requires_grad=True, dtype=torch.float64)
    assert attempt(lambda x: x / 2, lambda x: x.detach().numpy() / 2, 2 * leaf)  # a tensor in the middle of a graph
    with pytest.raises(ValueError, match="what the function returned was dict; it must be an array"):
        attempt(lambda x: {"y": x}, halve, np.ones(2))
    with pytest.raises(ValueError, match="which cannot be copied"):
        attempt(lambda x: 1.0, lambda x: 1.0, (i for i in range(3)))
