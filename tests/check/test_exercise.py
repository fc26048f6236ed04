import numpy as np
import pytest

import byhand.numpy as bn
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
    verdict = attempt(lambda x: {"y": x}, halve, np.ones(2))
    assert not verdict and "what the function returned was dict; it must be an array" in repr(verdict)
    with pytest.raises(ValueError, match="which cannot be copied"):
        attempt(lambda x: 1.0, lambda x: 1.0, (i for i in range(3)))


# ---- answers that are wrong in ways that the page did not list ----------------------------------


def attention(q, k, v):
    return bn.softmax.softmax(q @ k.T / np.sqrt(q.shape[1]))[0] @ v


def softmax_rows(s):
    return bn.softmax.softmax(s)[0]


def norm_backward(dy, x, gamma):
    _, cache = bn.norm.layer_norm(x, gamma, np.zeros_like(gamma), 1e-5)
    dx, grads = bn.norm.layer_norm_backward(dy, cache)
    return dx, grads["gamma"], grads["beta"]


def linear_backward(dy, x, w):
    return dy @ w.T, x.T @ dy


def add(x, y):
    return x + y


RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4))
NORM = RNG.normal(size=(3, 5)), RNG.normal(size=(3, 5)), RNG.normal(size=5)
SUMS = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
WRONG = [
    (attention, SQUARE, lambda q, k, v: 2 * attention(q, k, v), "2 times what it should be"),
    (attention, SQUARE, lambda q, k, v: -attention(q, k, v), "the sign is wrong everywhere"),
    (attention, SQUARE, lambda q, k, v: attention(q, k, v).T, "axes 0 and 1 are exchanged"),
    (attention, SQUARE, lambda q, k, v: -3 * attention(q, k, v), "-3 times"),
    (attention, SQUARE, lambda q, k, v: -attention(q, k, v).T, "two mistakes together: the sign is wrong everywhere, and then transposed"),
    (attention, SQUARE, lambda q, k, v: attention(q, k, v)[::-1], "reversed"),
    (attention, SQUARE, lambda q, k, v: attention(q, k, v) + v, "v is added once too often"),
    (attention, SQUARE, lambda q, k, v: 0 * v, "it is all 0"),
    (attention, SQUARE, lambda q, k, v: v, "it is what v should be"),
    (attention, SQUARE, lambda q, k, v: attention(q, k, v) / 0, "entries differ"),
    (attention, SQUARE, lambda q, k, v: q @ k @ v @ np.ones(3), "ValueError in your line"),
    (attention, SQUARE, lambda q, k, v: [q, k], "shape"),
    (attention, SQUARE, lambda q, k, v: "softmax", "what the function returned was str"),
    (attention, SQUARE, lambda q, k, v: attention(q, k, v).sum(), "the shape is ()"),
    (softmax_rows, SQUARE[:1], lambda s: softmax_rows(s.T).T, "the softmax runs over the wrong axis"),
    (softmax_rows, SQUARE[:1], lambda s: softmax_rows(s) * softmax_rows(s).sum(0), "every column has a factor of its own"),
    (softmax_rows, SQUARE[:1], lambda s: np.exp(s), "every row has a factor of its own"),
    (softmax_rows, SQUARE[:1], lambda s: np.log(softmax_rows(s)), "entries differ"),
    (norm_backward, NORM, lambda dy, x, g: (norm_backward(dy, x, g)[0], *norm_backward(dy, x, g)[:0:-1]), "in the order array 0, array 2, array 1"),
    (norm_backward, NORM, lambda dy, x, g: (dy, *norm_backward(dy, x, g)[1:]), "it is what dy should be"),
    (norm_backward, NORM, lambda dy, x, g: (norm_backward(dy, x, g)[0], norm_backward(dy, x, g)[1] / 3, norm_backward(dy, x, g)[2]), "(1/3)"),
    (norm_backward, NORM, lambda dy, x, g: (norm_backward(dy, x, g)[0], norm_backward(dy, x, g)[1]), "3 arrays wanted, 2 returned"),
    (norm_backward, NORM, lambda dy, x, g: (norm_backward(dy, x, g)[0], dy, norm_backward(dy, x, g)[2]), "the shape is (3, 5); it must be (5,)"),
    (norm_backward, NORM, lambda dy, x, g: (*norm_backward(dy, x, g)[:2], dy), "it is not yet summed over axis 0"),
    (linear_backward, SQUARE, lambda dy, x, w: linear_backward(dy, x, w)[::-1], "in the order array 1, array 0"),
    (linear_backward, SQUARE, lambda dy, x, w: (dy @ w.T, dy.T @ x), "axes 0 and 1 are exchanged"),
    (linear_backward, SQUARE, lambda dy, x, w: (dy @ w.T + dy, x.T @ dy), "dy is added once too often"),
    (linear_backward, SQUARE, lambda dy, x, w: (dy @ w.T, x.T @ dy / 4), "(1/4)"),
    (linear_backward, SQUARE, lambda dy, x, w: (dy @ w.T, np.outer(x[-1], dy[-1])), "entries differ"),
    (add, SUMS, lambda x, y: x, "it is what x should be"),
    (add, SUMS, lambda x, y: x + 2 * y, "y is added once too often"),
    (add, SUMS, lambda x, y: x - y, "y is subtracted where it must be added"),
    (add, SUMS, lambda x, y: -x, "two mistakes together"),
    (add, SUMS, lambda x, y: np.concatenate([x, y]), "the shape is (6, 4)"),
]


@pytest.mark.parametrize("reference, sample, wrong, words", WRONG)
def test_a_wrong_answer_is_named_or_placed(reference, sample, wrong, words):
    with np.errstate(all="ignore"):
        verdict = attempt(wrong, reference, *sample)
    assert not verdict and words in repr(verdict)


def test_known_mistakes_come_before_shapes_and_are_no_mistake_where_they_are_right():
    assert "when it is transposed" in repr(attempt(lambda x: x.T, lambda x: x, np.arange(6.0).reshape(2, 3), mistakes={"it is transposed": lambda x: x.T}))
    assert attempt(lambda x: x, lambda x: x, np.ones((2, 2)), mistakes={"it is transposed": lambda x: x.T})


def test_single_precision_a_cache_beside_the_result_and_a_dict_of_gradients():
    assert attempt(lambda q, k, v: attention(q, k, v).astype(np.float32), attention, *SQUARE)
    assert not attempt(lambda q, k, v: (1.001 * attention(q, k, v)).astype(np.float32), attention, *SQUARE)
    assert attempt(lambda q, k, v: (attention(q, k, v), (q, k)), attention, *SQUARE)
    assert attempt(lambda dy, x, g: (norm_backward(dy, x, g)[0], dict(zip("gb", norm_backward(dy, x, g)[1:]))), norm_backward, *NORM)


def told(function, reference, *arguments, **how):
    with np.errstate(all="ignore"):
        verdict = attempt(function, reference, *arguments, **how)
    assert not verdict
    return repr(verdict)


def test_a_mistake_is_named_only_where_it_gives_what_was_returned():
    def both(x, y):
        return x + y, x * y

    known = {"it is broken": lambda x, y: 1 / 0, "doubled": lambda x, y: (2 * (x + y), x * y), "negative": lambda x, y: (-x - y, -x * y)}
    assert told(lambda x, y: (2 * (x + y), x * y), both, *SUMS, mistakes=known) == "Not yet: this is what comes out when doubled."
    assert "when" not in told(lambda x, y: (3 * (x + y), x * y), both, *SUMS, mistakes=known)
    assert "when" not in told(lambda x, y: (2 * (x + y), 3 * x * y), both, *SUMS, mistakes=known)
    partly = told(lambda x, y: (2 * (x + y), -x * y), both, *SUMS, mistakes=known, returns=("sum", "product"))
    assert partly == "Not yet: sum is what comes out when doubled; product is what comes out when negative."


def test_a_number_of_arrays_that_is_not_the_wanted_one():
    def both(x, y):
        return x + y, x * y

    assert told(lambda x, y: x - y, both, *SUMS) == "Not yet: 2 arrays wanted, 1 returned."
    assert told(lambda x, y: (x * y, x - y, x), both, *SUMS) == "Not yet: 2 arrays wanted, 3 returned: yours are array 1, ?, ?, wanted are array 0, array 1."
    assert told(lambda x, y: (x, y, x), add, *SUMS) == "Not yet: 1 array wanted, 3 returned."


def test_an_exception_is_told_by_its_first_line_and_no_more_than_300_letters():
    def raises(*message):
        def wrong(x):
            raise ValueError(*message)

        return told(wrong, halve, np.ones(2))

    line = "Not yet: ValueError in your line `raise ValueError(*message)`"
    assert raises() == line and raises("") == line
    assert raises("one\ntwo") == f"{line}: one" and raises("  one ") == f"{line}: one" and raises("é" * 301) == f"{line}: {'é' * 300}"


def test_where_a_number_stopped_being_finite():
    def divides(x):
        y = x / 2
        return y / (x - x)

    assert told(divides, halve, np.ones(2)).endswith(
        "It begins with this: FloatingPointError in your line `return y / (x - x)`: divide by zero encountered in divide."
    )
    once = iter([np.array([np.nan, 1.0])])
    assert told(lambda x: next(once), halve, np.ones(2)).endswith("the first at (0,): nan, and it must be 0.5.")


def test_functions_without_a_signature_have_numbered_arguments():
    class Odd:
        __signature__ = "none"

        def __call__(self, x, y):
            return y

    assert "it is what argument 1 should be" in told(Odd(), add, *SUMS)


def test_the_softmax_over_the_wrong_axis_of_several():
    p = RNG.uniform(0.1, 0.9, size=3)
    x = RNG.normal(size=(2, 2, 3))
    words = "Each slice along axis {} sums to 1, where each row must: the softmax runs over the wrong axis."
    assert words.format(0) in told(lambda x: np.array([[p, 1 - p], [1 - p, p]]), softmax_rows, x)
    assert words.format(1) in told(lambda x: softmax_rows(x.swapaxes(1, 2)).swapaxes(1, 2), softmax_rows, x)
    assert "wrong axis" not in told(lambda x: np.array([0.5, 0.25, 0.125]), lambda x: np.array([0.5, 0.25, 0.25]), x)


def test_two_mistakes_where_one_is_an_exchange_of_axes():
    x = RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 3, 3))
    found = told(lambda x, y: 2 * (x + y).swapaxes(1, 2), add, *x)
    assert "it looks like two mistakes together: the last two axes are exchanged, and then 2 times what it should be" in found
    found = told(lambda x, y: 3 * (2 * x + y), add, *x)
    assert "two mistakes" not in found and "looks like" not in found  # none of those that are known
    assert "looks like" not in told(lambda x: np.exp(x), halve, SUMS[0])


def test_one_number_is_told_by_its_value_and_several_by_how_many_differ():
    assert told(lambda x: x + 0.1, halve, np.array([3.0])) == "Not yet: it is 3.1, and it must be 1.5."
    assert told(lambda x: x + 0.1, halve, np.array(3.0)) == "Not yet: it is 3.1, and it must be 1.5."
    assert told(lambda x: x**3, halve, np.array([3.0, 5.0])).startswith(
        "Not yet: the shape is right, but 2 of 2 entries differ; the first at (0,): 27, and it must be 1.5."
    )
    assert "1 of 2 entries differ; the first at (1,): 2.6," in told(lambda x: np.array([1.5, 2.6]), halve, np.array([3.0, 5.0]))


def test_what_is_no_function_no_mistakes_and_no_names():
    for bad in (dict(function="mine"), dict(mistakes=[halve]), dict(returns="y")):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} was (str|list); it must be"):
            attempt(**(dict(function=halve, reference=halve) | bad))
