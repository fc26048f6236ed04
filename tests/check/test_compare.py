"""The first stage that differs, and how it differs."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from byhand import check, toy
from byhand.numpy import step

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 6))
W = RNG.normal(size=(6, 6))
RUN = step.run(toy.generic())


def _changed(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


@pytest.mark.parametrize(
    ("mine", "right", "words"),
    [
        (X * 0, X, "it is all 0"),
        (X / 2**0.5, X, "0.70711 times (1/√2) what it should be"),
        (X * 3, X, "3 times what it should be"),
        (X / 3, X, "0.33333 times (1/3) what it should be"),
        (-X, X, "the sign is wrong everywhere"),
        (X * -(5**0.5), X, "-2.2361 times (-√5)"),
        (X * 6 / 5, X, "1.2 times (6/5)"),
        (X * 0.1234, X, "0.1234 times what"),
        (W.T, W, "transposed: axes 0 and 1 are exchanged"),
        (W[:, [3, 4, 5, 0, 1, 2]], W, "the 2 blocks of 3 along axis 1 (heads) are in the order [1, 0]"),
        (W.reshape(6, 2, 3).swapaxes(1, 2).reshape(6, 6), W, "interleaved: what should be 2 blocks of 3"),
        (X[:, ::-1], X, "the slices along axis 1 are reversed"),
        (X[:, [2, 0, 3, 1]], X, "the slices along axis 1 are in the order [2, 0, 3, 1]"),
        (X[None][:, [1, 2, 0]], X[None], "axis 1 are in the order [1, 2, 0] (heads)"),
        (_changed(X, 1, 2 * X[1]), X, "only slice 1 of 3 along axis 0 differs; there 2 times"),
        (_changed(X, np.s_[:, 2:], 0), X, "only slices 2, 3 of 4 along axis 1 differ; there it is all 0"),
        (X + 0.5, X, "0.5 is added to every entry"),
        (X + RNG.normal(size=6), X, "every row is off by the same row, as when a bias is missing"),
        (X + RNG.normal(size=(3, 4, 1)), X, "every row is off by one number of its own, as when a mean"),
        (X * RNG.normal(size=6), X, "every column has a factor of its own, as when γ"),
        (X * RNG.normal(size=(3, 4, 1)), X, "every row has a factor of its own"),
        (np.abs(X), X, "some have the wrong sign"),
        (X + 1e-6 * RNG.normal(size=X.shape), X, "nearly right"),
        (RNG.normal(size=X.shape), X, "it differs in no way known here"),
        (_changed(X, (1, 2, 3), np.nan), X, "nan at [1, 2, 3], the first of 1 entries that are not finite"),
        (X.T, X, "shape (6, 4, 3) for (3, 4, 6): transposed"),
        (X.reshape(12, 6), X, "the same entries in the same order"),
        (X.swapaxes(0, 1).reshape(12, 6), X, "the same entries once the right one's axes are taken in the order (1, 0, 2)"),
        (X[:1], np.repeat(X[:1], 3, 0), "it was not spread over the further axes (broadcasting)"),
        (np.repeat(X[:1], 3, 0), X[:1], "it was spread over the further axes"),
        (X, X.sum(0), "it is not yet summed over axis 0"),
        (X, X.mean((1,)), "it is not yet averaged over axis 1"),
        (X, RNG.normal(size=(2, 2)), "shape (3, 4, 6) for (2, 2)"),
        (X, X, ""),
    ],
)
def test_how_they_differ(mine, right, words):
    found = check.diagnose(mine, right)
    assert words in found and bool(found) == bool(words)


def test_a_stage_in_place_of_another_and_a_path_left_out_or_taken_twice():
    others = {"a": RNG.normal(size=X.shape), "b": RNG.normal(size=X.shape), "c": np.zeros(X.shape), "d": np.zeros(3)}
    assert check.diagnose(others["b"], X, others=others) == "it is what b should be"
    assert check.diagnose(X - others["a"], X, others=others) == "a is missing from the sum"
    assert check.diagnose(X + others["b"], X, others=others) == "b is added once too often"


def test_equal_dicts_agree_and_are_shown():
    result = check.compare(RUN.output.activations, RUN.output.activations)
    assert result and result.first is None and "119 stages agree within 1e-9" in repr(result)


def test_the_first_in_the_references_order_is_named():
    activations = RUN.output.activations
    mine = {name: activations[name] for name in reversed(activations)}
    mine["decoder.0.norm_2.out"] = activations["decoder.0.norm_2.normalised"]
    mine["decoder.1.norm_3.out"] = 2 * activations["decoder.1.norm_3.out"]
    result = check.compare(mine, activations)
    assert not result and len(result.failures) == 2
    assert result.first.name == "decoder.0.norm_2.out" and result.first.how == "it is what decoder.0.norm_2.normalised should be"
    assert "2 of 119 stages differ; the first is decoder.0.norm_2.out" in repr(result)
    assert "2 of 119" in result._repr_mimebundle_()["text/html"]


def test_a_dropped_path_is_named_by_its_own_name():
    stages = RUN.gradients.stages
    mine = dict(stages, **{"encoder.0.input": stages["encoder.0.input"] - stages["encoder.0.input.via_value"]})
    assert check.compare(mine, stages).first.how == "encoder.0.input.via_value is missing from the sum"


def test_a_path_that_only_mine_has_helps_to_say_what_is_missing():
    stages = RUN.gradients.stages
    mine = dict(stages, **{"encoder.0.input": stages["encoder.0.input"] - stages["encoder.0.input.via_key"]})
    reference = {name: value for name, value in stages.items() if ".via_" not in name}
    result = check.compare(mine, reference)
    assert result.first.name == "encoder.0.input" and result.first.how == "encoder.0.input.via_key is missing from the sum"
    assert all(".via_" in name for name in result.only_mine) and result.only_reference == ()


def test_names_that_do_not_meet_are_paired_by_shape_and_order():
    activations = RUN.output.activations
    mine = {f"layer{i}": value for i, value in enumerate(activations.values())}
    assert check.compare(mine, activations)
    del mine["layer7"]
    mine["layer20"] = -mine["layer20"]
    mine["extra"] = np.zeros((1, 1))
    result = check.compare(mine, activations)
    names = list(activations)
    assert result.first.name == names[20] and result.first.mine == "layer20" and "sign" in result.first.how
    assert result.only_mine == ("extra",) and result.only_reference == (names[7],)


def test_one_shared_name_does_not_leave_the_others_uncompared():
    activations = RUN.output.activations
    names = list(activations)
    mine = {names[3] if i == 3 else f"layer{i}": value for i, value in enumerate(activations.values())}
    assert len(check.compare(mine, activations).rows) == len(names)
    mine["layer20"] = -mine["layer20"]
    assert check.compare(mine, activations).first.name == names[20]


@pytest.mark.parametrize("shared", range(6))
def test_names_count_where_half_of_them_are_shared(shared):
    """With fewer the others are paired by shape and order."""
    mine = {f"s{i}" if i < shared else f"my{i}": X[..., i] for i in range(5)}
    result = check.compare(mine, {f"s{i}": X[..., i] for i in range(5)})
    assert result and len(result.rows) == (5 if shared < 3 else shared) and len(result.only_reference) == 5 - len(result.rows)
    four = check.compare({"s0": X, "s1": W, "a": -X, "b": -W}, {"s0": X, "s1": W, "c": -X, "d": -W})
    assert len(four.rows) == 2 and four.only_mine == ("a", "b") and four.only_reference == ("c", "d")


def _best(worth):
    """The most that pairs can be worth that leave both orders as they are, by trying all."""
    m, n = worth.shape
    ways = (zip(a, b) for k in range(1, min(m, n) + 1) for a in itertools.combinations(range(m), k) for b in itertools.combinations(range(n), k))
    return max((sum(worth[pair] for pair in way) for way in ([*way] for way in ways) if all(worth[pair] for pair in way)), default=0)


@pytest.mark.parametrize("seed", range(40))
def test_of_all_pairings_in_order_the_best_is_found(seed):
    """Whoever is left out, on either side: as many agree as can, then as many shapes are equal as can."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=shape) for shape in ((2, 3), (2, 3), (3, 2), (4,), (2, 3, 1))]
    mine, right = ([arrays[i] for i in rng.integers(0, len(arrays), rng.integers(1, 5))] for _ in "ab")
    mine = [value.T if value.ndim == 2 and rng.random() < 0.2 else value for value in mine]

    def worth(a, b):
        if a.shape == b.shape:
            return 1e6 if (a == b).all() else 1e3
        return (9e5 if a.ndim == b.ndim == 2 and a.shape == b.T.shape and (a == b.T).all() else 1) if sorted(a.shape) == sorted(b.shape) else 0

    table = np.array([[worth(a, b) for b in right] for a in mine])
    if not table.any():
        with pytest.raises(ValueError, match="at least two must agree"):
            check.compare(dict(zip("abcd", mine)), dict(zip("stuv", right)))
        return
    result = check.compare(dict(zip("abcd", mine)), dict(zip("stuv", right)))
    pairs = [("abcd".index(row.mine), "stuv".index(row.name)) for row in result.rows]
    assert all(i < k and j < l for (i, j), (k, l) in itertools.pairwise(pairs)) and all(table[pair] for pair in pairs)
    assert sum(table[pair] for pair in pairs) == _best(table)
    assert sum(row.holds for row in result.rows) == sum(table[pair] == 1e6 for pair in pairs)


def test_who_is_worth_more():
    square, wide = RNG.normal(size=(2, 4, 6)), RNG.normal(size=(4, 6))

    def partner(name, mine, reference):
        return {row.name: row.mine for row in check.compare(mine, reference).rows}.get(name)

    assert partner("r", {"a": square[0], "b": wide.T}, {"r": wide}) == "b"  # exchanged axes before an equal shape
    assert partner("r", {"a": square[0].T, "b": square[1]}, {"r": wide}) == "b"  # an equal shape before another order of its axes
    assert partner("r", {"a": square[0], "b": wide.T, "c": wide}, {"r": wide}) == "c"
    assert partner("r", {"a": wide.T[None], "b": square[0].T}, {"r": wide}) == "b"
    assert partner("r", {"a": square[0].T}, {"r": wide}) == "a"
    beyond = check.compare({"a": np.ones((2, 3)), "b": np.ones(7), "c": np.ones((6, 4))}, {"q": np.zeros((2, 3)), "r": wide, "s": np.ones(5)})
    assert [(row.name, row.mine) for row in beyond.rows] == [("q", "a"), ("r", "c")]
    crossing = {"a": np.ones((3, 2)), "b": np.ones((5, 2)), "c": square[0]}
    assert [row.name for row in check.compare(crossing, {"r": wide, "s": np.ones((2, 3)), "t": np.ones((2, 5))}).rows] == ["r"]


def test_where_no_gradient_arrived_the_shape_alone_tells():
    def module(**grads):
        """Parameters of 1 with these gradients."""
        parameters = {name: torch.nn.Parameter(torch.ones(*(grad if isinstance(grad, tuple) else grad.shape)).double()) for name, grad in grads.items()}
        for name, grad in grads.items():
            parameters[name].grad = None if isinstance(grad, tuple) else torch.tensor(grad)
        return SimpleNamespace(named_parameters=parameters.items)

    right = {"q": X[0], "k": X[1], "w": W, "v": W[:2]}
    result = check.compare(module(a=(4, 6), b=X[1], c=(6, 2), d=W, e=(2, 6)), right)
    assert [(row.name, row.mine, row.holds) for row in result.rows] == [("q", "a", False), ("k", "b", True), ("w", "d", True), ("v", "e", False)]
    assert result.only_mine == ("c",) and all("no gradient arrived in mine, but at b, d" in row.how for row in result.failures)
    result = check.compare({"a": None, "b": X}, {"y": W, "x": None, "z": X})
    assert [row.name for row in result.rows] == ["z"] and result.only_mine == ("a",) and result.only_reference == ("y", "x")
    crossing = check.compare(module(c=RNG.normal(size=(4, 2)), a=(3, 4)), {"q": RNG.normal(size=(3, 4)), "k": W[:2, :4]})
    assert [(row.name, row.mine) for row in crossing.rows] == [("q", "a")]


def test_all_the_paths_of_one_place_left_out_together():
    paths = {f"x.via_{way}": RNG.normal(size=(3, 4)) for way in "abc"}
    total = RNG.normal(size=(3, 4))
    for ways in (2, 3):
        some = dict(list(paths.items())[:ways])
        reference = {"z": total + sum(some.values())} | some
        assert check.compare(reference | {"z": total}, reference).first.how == "x, by all its paths, is missing from the sum"
    reference = {"z": total + paths["x.via_a"], "x.via_a": paths["x.via_a"], "y.via_a": RNG.normal(size=(3, 4))}
    assert check.compare(reference | {"z": total}, reference).first.how == "x.via_a is missing from the sum"


def test_what_the_rows_and_the_title_say():
    small = {"s": np.array([1e-13])}
    names = {name: X + i for i, name in enumerate("abcde")}
    result = check.compare({**names, "w": W, "s": np.zeros(1), "b": X}, {**names, "w": W} | small)
    assert [row.name for row in result.rows if row.verdict == "agrees within 1e-9"] == ["a", "c", "d", "e", "w"]
    assert result["s"].verdict == "left open: too small to tell" and result["b"].verdict == "differs: it is what a should be"
    far = check.compare({"x": _changed(X, (1, 2, 3), 99.0)}, {"x": X}).first
    assert far.where == "[1, 2, 3]" and far.worst == pytest.approx((99 - X[1, 2, 3]) / 99)
    assert result.title == "1 of 7 stages differs; the first is b: it is what a should be; 1 left open"
    assert check.compare({"a": 2 * X, "b": -W}, {"a": X, "b": W}).title == "2 of 2 stages differ; the first is a: 2 times what it should be"
    assert check.compare({"a": 2 * X}, {"a": X}).title == "1 of 1 stage differs; the first is a: 2 times what it should be"
    with pytest.raises(ValueError, match=r"mine had a, b, c, d and 1 more and the reference t, u, v, w; at least two"):
        check.compare(names, dict.fromkeys("tuvw", W))


def test_names_can_be_given():
    result = check.compare({"mine": X, "other": X}, {"theirs": X.copy(), "rest": W}, names={"mine": "theirs"})
    assert result and [(row.name, row.mine) for row in result.rows] == [("theirs", "mine")]
    assert result.only_mine == ("other",) and result.only_reference == ("rest",)
    with pytest.raises(ValueError, match="names held 'min': 'theirs'"):
        check.compare({"mine": X}, {"theirs": X}, names={"min": "theirs"})


def test_nothing_to_compare():
    with pytest.raises(ValueError, match="at least two must agree in name or in shape"):
        check.compare({"a": X}, {"b": W})
    with pytest.raises(ValueError, match="mine was ndarray"):
        check.compare(X, {"a": X})


# ---- a torch module, through hooks --------------------------------------------------------------


class Reader(torch.nn.Module):
    """A reader's block: post-norm attention and feed-forward."""

    def __init__(self, wrong=False):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(6, 2, bias=False, batch_first=True)
        self.norm = torch.nn.LayerNorm(6)
        self.wide, self.narrow = torch.nn.Linear(6, 5), torch.nn.Linear(5, 6)
        self.wrong = wrong

    def forward(self, x):
        mixed, _ = self.attention(x, x, x)
        x = self.norm(mixed if self.wrong else x + mixed)
        return x + self.narrow(self.wide(x).relu())


def _seen(wrong):
    torch.manual_seed(0)
    reader = Reader(wrong).double()
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    with check.watch(reader) as seen:
        reader(x).square().sum().backward()
    return reader, seen


def test_a_module_is_seen_through_hooks():
    reader, seen = _seen(False)
    assert list(seen.activations) == ["attention.0", "attention.1", "norm", "wide", "narrow", ""]
    assert seen.activations["wide"].shape == (2, 4, 5)
    assert [name for name in seen.gradients if name] == ["narrow", "wide", "norm", "attention.0"]
    hooks = [part._forward_hooks for part in reader.modules()]
    assert not any(hooks)  # nothing is left behind


def test_two_modules_are_compared_and_the_forgotten_residual_is_found():
    (right, right_seen), (wrong, wrong_seen) = _seen(False), _seen(True)
    result = check.compare(wrong_seen, right_seen)
    assert result.first.name == "norm" and result["attention.0"].holds
    assert not check.compare(wrong, right) and check.compare(right, right)


def test_parameter_gradients_of_a_module_against_a_dict():
    reader, _ = _seen(False)
    grads = {name: p.grad.numpy() for name, p in reader.named_parameters()}
    assert check.compare(reader, grads)
    grads["wide.bias"] = grads["wide.bias"] / 8
    result = check.compare(reader, grads)
    assert result.first.name == "wide.bias" and result.first.how == "8 times what it should be"
    transposed = {"w": grads["wide.weight"].T}
    assert "transposed" in check.compare(reader, transposed, names={"wide.weight": "w"}).first.how


def test_a_part_called_twice_is_numbered():
    part = torch.nn.Linear(3, 3)
    model = torch.nn.Sequential(part, torch.nn.Tanh(), part)
    with check.watch(model) as seen:
        model(torch.ones(2, 3))
    assert list(seen.activations) == ["0", "1", "0#2", ""]


def test_what_cannot_be_watched_or_has_no_gradients():
    with pytest.raises(ValueError, match="module was dict; it must be a torch.nn.Module"), check.watch({}):
        pass
    with pytest.raises(ValueError, match="mine was without gradients: none arrived at any parameter"):
        check.compare(torch.nn.Linear(2, 2), {"weight": np.zeros((2, 2))})


class _Attention(torch.nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        for name in "qkvo":
            setattr(self, name, torch.nn.Linear(6, 6, bias=False, dtype=torch.float64))

    def forward(self, x):
        a = torch.softmax(self.q(x) @ self.k(x).transpose(-1, -2) / 6**0.5, -1)
        return self.o((a.detach() if self.cut else a) @ self.v(x))


def _after_backward(*models):
    x, w = torch.randn(2, 2, 4, 6, dtype=torch.float64)
    for model in models:
        model.load_state_dict(models[0].state_dict())
        (model(x) * w).sum().backward()
    return models


def test_a_parameter_that_got_no_gradient_is_a_difference():
    torch.manual_seed(0)
    right, cut = _after_backward(_Attention(False), _Attention(True))
    report = check.compare(cut, right)
    assert not report and [row.name for row in report.failures] == ["q.weight", "k.weight"]
    assert "no gradient arrived in mine, but at v.weight, o.weight" in report.first.how and report.title.startswith("2 of 4 stages differ")
    assert "in the reference" in check.compare(right, cut).first.how
    both = check.compare(cut, cut)
    assert both and both["q.weight"].holds is None and both.title == "2 stages agree within 1e-9; 2 left open"
    grads = {name: p.grad for name, p in right.named_parameters()}
    assert [row.name for row in check.compare(grads | {"v.weight": None}, right).failures] == ["v.weight"]
    renamed = {f"my.{name}": value for name, value in grads.items()}
    assert [row.name for row in check.compare(cut, renamed).failures] == ["my.q.weight", "my.k.weight"]


def test_backward_that_reached_nothing_is_said_so():
    right = torch.nn.Linear(3, 3)
    mine = torch.nn.Linear(3, 3)
    x = torch.randn(2, 3)
    right(x).sum().backward()
    mine(x).detach().requires_grad_().sum().backward()
    with pytest.raises(ValueError, match=r"mine was without gradients: none arrived at any parameter \(weight, bias\).*or the graph is cut"):
        check.compare(mine, right)
    with pytest.raises(ValueError, match="reference was without gradients"):
        check.compare(right, mine)


def test_below_the_floor_only_the_arrays_own_size_counts():
    small = np.array([1e-13, 2e-13])
    report = check.compare({"w": np.zeros(2)}, {"w": small})
    assert not report and not report.failures and report["w"].holds is None and report.title == "no stage agrees within 1e-9; 1 left open"
    assert check.compare({"w": small}, {"w": small * (1 + 1e-12)}).title == "1 stage agrees within 1e-9"
    assert check.compare({"w": np.zeros(2)}, {"w": np.zeros(2)})
    assert "2 times" in check.compare({"w": 2e-4 * np.ones(2)}, {"w": 1e-4 * np.ones(2)}).first.how
    assert "2 times" not in check.compare({"w": np.array([2e-10, 2.1e-10])}, {"w": np.array([1e-10, 1e-10])}).title
