"""Each instrument names the cause on the run that shows the symptom, and is silent on the repaired run."""

import gc

import numpy as np
import pytest

from byhand import Config, check
from byhand.check import instruments
from byhand.numpy import attention, decoder, layers, loss, optimizer, softmax

CONFIG = Config(d_model=8, n_heads=2, d_ff=16, n_layers=2, source_vocab=1, target_vocab=7, norm="pre")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def said(report):
    return report.failures[0].verdict


# ---- a loss that is too good ----


def test_leaked_targets(rng):
    tokens = rng.integers(0, 7, (4, 9))
    leaked = instruments.shifted(tokens, tokens)
    assert not leaked and "not shifted" in said(leaked) and "not shifted" in leaked.title
    assert "wrong way" in said(instruments.shifted(tokens[:, 1:], tokens[:, :-1]))
    partly = tokens[:, 1:].copy()
    partly[2, 3] = (partly[2, 3] + 1) % 7
    assert instruments.shifted(tokens[:, :-1], partly).failures[0].where == "[2, 3]"
    repaired = loss.next_token(tokens)
    assert instruments.shifted(repaired.inputs, repaired.targets)


@pytest.mark.parametrize(("inputs", "targets"), [(np.zeros((2, 3), int), np.zeros((2, 4), int)), (np.zeros((2, 1), int), np.zeros((2, 1), int))])
def test_targets_that_do_not_fit(inputs, targets):
    with pytest.raises(ValueError, match="targets had shape"):
        instruments.shifted(inputs, targets)


def test_a_missing_mask(rng, monkeypatch):
    """The instrument for this is causal_isolation."""
    params, tokens = decoder.init(CONFIG), rng.integers(0, 7, (2, 6))

    def run(tokens):
        return decoder.forward(params, CONFIG, tokens).logits

    assert check.causal_isolation(run, tokens, 7)
    monkeypatch.setattr(layers, "multi_head_attention", lambda *a: attention.multi_head_attention(*a[:8], False, *a[9:]))
    leaking = check.causal_isolation(run, tokens, 7)
    assert not leaking and leaking.failures[0].name == "a later token moves no earlier logits"


@pytest.mark.parametrize("kind", ["text", "arrays", "tuples", "tensors"])
def test_duplicated_validation_examples(kind):
    if kind == "tensors":
        torch = pytest.importorskip("torch")
    make = {
        "text": lambda i: f"sentence {i}",
        "arrays": lambda i: np.array([i, i + 1]),
        "tuples": lambda i: (i, np.array([i])),
        "tensors": lambda i: torch.tensor([i, 0]),
    }[kind]
    training, clean = [make(i) for i in range(50)], [make(i) for i in range(50, 60)]
    mixed = clean[:4] + training[10:13]
    found = instruments.overlap(training, mixed)
    assert not found and said(found) == "3 of 7 examples are in the training set too" and found.failures[0].where == "example 4 and 2 more"
    assert instruments.overlap(training, clean)


# ---- NaN ----


def stages_of_attention(q, k, mask, safe):
    """Scores, weights: by hand where not safe, the package's otherwise."""
    scores = np.where(mask, q @ k.T, -np.inf)
    with np.errstate(all="ignore"):
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = softmax.softmax(scores)[0] if safe else exponentials / exponentials.sum(axis=-1, keepdims=True)
    return {"scores": scores, "weights": weights}


def test_an_all_masked_row(rng):
    q, k, mask = rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), np.ones((3, 4), bool)
    mask[1], mask[2, :2] = False, False
    found = instruments.first_not_finite(stages_of_attention(q, k, mask, safe=False))
    assert not found and found.failures[0].name == "weights"
    assert "row [1] of scores is −∞ throughout" in said(found)
    assert instruments.first_not_finite(stages_of_attention(q, k, mask, safe=True))  # a partly masked row is no fault


def test_overflow():
    scores = np.array([[1.0, 1000.0]])
    with np.errstate(all="ignore"):
        exponentials = np.exp(scores)
        bad = {"scores": scores, "exponentials": exponentials, "weights": exponentials / exponentials.sum()}
        in_half = np.array([7e4]).astype(np.float16)
    found = instruments.first_not_finite(bad)
    assert [row.name for row in found.failures] == ["exponentials", "weights"]
    assert said(found) == "overflowed to ∞" and found.failures[0].where == "[0, 1]" and "exponentials[0, 1] is ∞" in found.failures[1].verdict
    assert not instruments.first_not_finite({"hidden": in_half})
    assert instruments.first_not_finite({"scores": scores, "weights": softmax.softmax(scores)[0]})


def test_zero_times_log_zero():
    p, q = np.array([1.0, 0.0]), np.array([1.0, 0.0])
    with np.errstate(all="ignore"):
        log_p = np.log(p)
        bad = {"p": p, "log p": log_p, "q log p": q * log_p}
        repaired = {"p": p, "log p": log_p, "q log p": np.where(q > 0, q * log_p, 0)}
    found = instruments.first_not_finite(bad)
    assert not found and found.failures[0].name == "q log p" and "log p[1] is −∞, the logarithm of 0" in said(found)
    assert instruments.first_not_finite(repaired)


def test_nan_from_finite_numbers():
    found = instruments.first_not_finite({"x": np.zeros(2), "y": np.array([np.nan, 0.0])})
    assert "0/0" in said(found) and found.failures[0].where == "[0]"


def test_the_learning_rate(rng):
    params = decoder.init(CONFIG)
    tokens = rng.integers(0, 7, (2, 6))
    out = decoder.forward(params, CONFIG, tokens[:, :-1])
    grads = decoder.backward(loss.cross_entropy(out.logits, tokens[:, 1:])[1], out.cache)

    def step(lr):
        return optimizer.adam(params, grads, lr=lr)[0]

    found = instruments.step_sizes(params, step(1.0))
    assert not found and all("the learning rate is too large" in row.verdict for row in found.failures)
    assert instruments.step_sizes(params, step(1e-3))
    gone = {name: np.full_like(value, np.nan) for name, value in params.items()}
    assert said(instruments.step_sizes(params, gone)) == "is not finite after the step"


# ---- layers that do not move ----


def test_early_layers():
    sick = {f"block.{i}.w": np.full((2, 2), 1e-2 ** (5 - i)) for i in range(6)}
    found = instruments.layer_gradients(sick)
    assert [row.name for row in found.failures] == ["layer 0", "layer 1", "layer 2", "layer 3"] and "hardly moves" in said(found)
    assert instruments.layer_gradients({f"block.{i}.w": np.full(3, 1.0 + i) for i in range(6)})
    assert not instruments.layer_gradients({"layers.0.w": np.zeros(2), "layers.1.w": np.ones(2)})
    with pytest.raises(ValueError, match="gradients had the names w"):
        instruments.layer_gradients({"w": np.ones(2)})


# ---- memory ----


@pytest.fixture
def collected_elsewhere():
    """What other tests have left is not looked through again at every call."""
    gc.freeze()
    yield
    gc.unfreeze()


def test_memory_that_grows(collected_elsewhere):
    history = []
    found = instruments.kept_memory(lambda: history.append(np.zeros(100_000)))
    assert not found and "grows with every call by 781" in said(found)
    history.clear()
    assert instruments.kept_memory(lambda: history.append(float(np.zeros(100_000).sum())))


def test_memory_use_counts_what_is_shared_once():
    w = np.zeros(1000)
    report = instruments.memory_use(params={"w": w}, state=({"w": w.copy()}, {"w": w.copy(), "again": w, "twice": w}))
    assert report["params"].worst == 8000 and report["state"].worst == 24000
    assert report.rows[0].name == "state" and "75 %" in report.rows[0].verdict


# ---- a loss that improves while the task does not ----


def test_a_slice_that_fails():
    rare = np.arange(100) < 10
    found = instruments.by_slice(~rare, {"common": ~rare, "rare": rare})
    assert not found and found.failures[0].name == "rare" and "0 % right of 10" in said(found)
    assert instruments.by_slice(np.ones(100, bool), {"common": ~rare, "rare": rare})
    with pytest.raises(ValueError, match=r"slices\['empty'\] held no example"):
        instruments.by_slice(rare, {"empty": np.zeros(100, bool)})
    with pytest.raises(ValueError, match=r"slices\['short'\] had dtype"):
        instruments.by_slice(rare, {"short": np.zeros(3, bool)})


# ---- bad input ----


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: instruments.overlap(["a"], []), "validation held no example"),
        (lambda: instruments.step_sizes({"w": np.ones((2, 2))}, {"v": np.ones((2, 2))}), "only one of them has v, w"),
        (lambda: instruments.kept_memory(lambda: None, times=1), "times was 1"),
        (lambda: instruments.first_not_finite({"x": "text"}), "x was str"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- the loss before the first step ----


@pytest.mark.parametrize("tied", [True, False])
def test_loss_at_start(rng, tied):
    """A tied table, after rows scaled by √d, makes an untrained model say its input; an output matrix of its own does not."""
    config = Config(d_model=64, n_heads=4, d_ff=64, n_layers=1, source_vocab=1, target_vocab=50, norm="pre", tied=tied)
    tokens = rng.integers(0, 50, (8, 13))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    logits = decoder.forward(decoder.init(config, 0), config, inputs).logits
    report = instruments.loss_at_start(logits, targets, inputs)
    if tied:
        assert [row.name for row in report.failures] == ["loss", "likeliest token"]
        assert "above it" in said(report) and "repeats" in report.failures[1].verdict
    else:
        report.require()
        assert "about a fair guess" in report.rows[0].verdict


def test_loss_at_start_that_knows_answers(rng):
    targets = rng.integers(0, 7, (2, 5))
    known = 5.0 * np.eye(7)[targets]
    assert "below it" in said(instruments.loss_at_start(known, targets))
    instruments.loss_at_start(0 * known, targets).require()
    with pytest.raises(ValueError, match="targets had shape"):
        instruments.loss_at_start(known, targets[:, :3])
    with pytest.raises(ValueError, match="inputs had shape"):
        instruments.loss_at_start(known, targets, targets[:, :3])


# ---- where a verdict turns, and what is said ----


def test_targets_on_the_edge():
    inputs = np.array([[0, 1, 2, 3], [4, 5, 6, 0]])
    ahead = np.array([[1, 2, 3, 9], [5, 6, 0, 9]])
    assert instruments.shifted(inputs, ahead).title == "targets against inputs: nothing found"
    assert instruments.shifted(inputs[:, :2], ahead[:, :2])
    partly = ahead.copy()
    partly[1, 1], partly[0, 2] = 8, 8
    report = instruments.shifted(inputs, partly)
    assert report.title == "targets against inputs: targets [0, 2]: only 67 % are the next input"
    wrong = instruments.shifted(inputs, inputs)
    assert wrong.title == "targets against inputs: targets: not shifted: each target is the input at its own position" and wrong.rows[0].where == ""
    for bad in (inputs[0], inputs[None], inputs[:, :1], inputs[:, :0]):
        with pytest.raises(ValueError, match="targets had shape"):
            instruments.shifted(bad, bad)


def test_how_many_are_in_both_sets():
    for count in (1, 2, 5):
        report = instruments.overlap(range(count), [90, *range(count), 91])
        assert report.rows[0].where == "example 1" + (f" and {count - 1} more" if count > 1 else "") and report.rows[0].worst == count / (count + 2)
    assert said(instruments.overlap(["b"], "abc")) == "1 of 3 examples are in the training set too"
    assert instruments.overlap([], [1, 2]).rows[0].verdict == "none of 2 examples is in the training set"
    assert not instruments.overlap([np.zeros((2, 2))], [np.zeros((2, 2))]) and instruments.overlap([np.zeros((1, 4))], [np.zeros((2, 2))])


def test_a_first_loss_on_the_edge():
    logits, targets = np.zeros((1, 4, 5)), np.arange(4)[None]
    for sure, words in (
        (1.2, "below it: it knows answers already"),
        (-1.5, "above it: sure of something wrong"),
        (0.3, "about a fair guess"),
        (-0.3, "about a fair guess"),
    ):
        biased = logits.copy()
        biased[0, np.arange(4), targets[0]] = sure
        value = np.log(np.exp(sure) + 4) - sure
        row = instruments.loss_at_start(biased, targets).rows[0]
        assert row.verdict == f"{value:.2f}, ln V is {np.log(5):.2f}: {words}" and row.holds == words.startswith("about")
        assert row.worst == pytest.approx(abs(value - np.log(5)))
        assert instruments.loss_at_start(biased, targets, allowed=row.worst) and not instruments.loss_at_start(biased, targets, allowed=0.999 * row.worst)
    for copied in range(5):
        biased = logits.copy()
        biased[0, np.arange(copied), targets[0, :copied]] = 1e-3
        biased[0, np.arange(copied, 4), 4] = 1e-3
        row = instruments.loss_at_start(biased, (targets + 1) % 5, targets).rows[1]
        assert row.holds == (copied <= 2) and row.verdict == f"the input itself at {25 * copied} % of the places{': it repeats what it reads' * (copied > 2)}"
    for bad in (logits[0], logits[:, :0], logits[:, :3]):
        with pytest.raises(ValueError, match="targets had shape"):
            instruments.loss_at_start(bad, targets if bad.size else targets[:, :0])


def test_what_stood_before_the_first_nan():
    low, nan = np.array([[0.0, -np.inf], [1.0, 2.0]]), np.array([0.0, np.nan])
    empty, over = np.array([[0.0, 1.0], [-np.inf, -np.inf]]), np.array([1.0, np.inf, np.inf])

    def cause(**stages):
        return said(instruments.first_not_finite(stages | {"n": nan})).removeprefix("the first NaN: ")

    log, throughout = "a[0, 1] is −∞, the logarithm of 0, and 0 · −∞ is no number", "row [1] of a is −∞ throughout, nothing in it may be attended to"
    assert cause(a=low, b=low) == log and cause(a=empty) == throughout and cause(x=np.zeros(2), a=low) == log
    assert cause(z=low, a=empty) == throughout and cause(a=empty, z=low) == throughout
    assert cause() == cause(x=np.ones(3)) == "from finite numbers, as 0/0 gives"
    report = instruments.first_not_finite({"a": low, "b": over, "c": over[:2], "n": nan, "m": nan})
    assert [(row.name, row.holds, row.where) for row in report.rows] == [("a", True, ""), ("b", False, "[1]"), ("c", False, "[1]"), ("n", False, "[1]")]
    assert report.rows[-1].verdict == "the first NaN: c[1] is ∞" and report.title == "stages in the order of computing: b [1]: overflowed to ∞ (and 2 more)"
    assert instruments.first_not_finite({"x": 1.0, "y": np.float64(-np.inf)}) and not instruments.first_not_finite({"x": np.nan})
    assert instruments.first_not_finite({"a": low}).rows[0].verdict == "no NaN"
    assert instruments.first_not_finite({}).title == "stages in the order of computing: nothing was looked at"


def test_a_step_on_the_edge():
    w, b = 4 * np.eye(2), np.ones(3)
    before = {"w": w, "b": b, "still": np.zeros((2, 2))}
    for factor, words in ((1.25, "moved by 0.25 of its size"), (1.3125, "moved by 0.31 of its size: the learning rate is too large")):
        report = instruments.step_sizes(before, {"w": factor * w, "b": 9 * b, "still": np.ones((2, 2))})
        assert [(row.name, row.worst, row.verdict, row.holds) for row in report.rows] == [("w", factor - 1, words, factor < 1.3)]
    assert instruments.step_sizes(before, before | {"w": 2 * w}, limit=1.0) and not instruments.step_sizes(before, before | {"w": 2 * w}, limit=0.99)
    report = instruments.step_sizes({"a": w, "b": w}, {"a": np.nan * w, "b": 5 * w})
    assert [row.holds for row in report.rows] == [False, False] and report.title == "one step: a: is not finite after the step (and 1 more)"
    with pytest.raises(ValueError, match=r"w had shape \(2, 2\) before and \(2, 3\) after"):
        instruments.step_sizes({"w": w}, {"w": np.ones((2, 3))})
    with pytest.raises(ValueError, match="only one of them has a, b, c, d$"):
        instruments.step_sizes(dict.fromkeys("abcdef", w), {})


def test_layers_on_the_edge():
    names = ["block.0.w", "layer.1.w", "model.layers.2.w", "h.3.w", "encoder.4.w", "decoder.12.w"]
    report = instruments.layer_gradients(
        {name: np.full(4, 2.0) for name in names} | {"norm.gamma": np.ones(9), "block.7": np.ones(9), "myblock.3.w": np.ones(9)}
    )
    assert [row.name for row in report.rows] == [f"layer {i}" for i in (0, 1, 2, 3, 4, 12)] and all(row.verdict == "gradient norm 4" for row in report.rows)
    sizes = {"h.0.a": np.array([3e-3, 0]), "h.0.b": np.array([4e-3]), "h.1.a": np.array([5.0]), "h.2.a": np.array([4e-3])}
    report = instruments.layer_gradients(sizes)
    assert [row.holds for row in report.rows] == [True, True, False] and report.rows[2].verdict == "gradient norm 0.004, 0.0008 of the largest: it hardly moves"
    assert [row.worst for row in report.rows] == pytest.approx([1e-3, 1, 8e-4]) and not instruments.layer_gradients(sizes, ratio=1.01e-3)["layer 0"].holds
    assert [row.worst for row in instruments.layer_gradients({"h.0.w": np.zeros(2), "h.1.w": np.zeros(2)}).rows] == [0, 0]
    with pytest.raises(ValueError, match="gradients had the names a, b, c, d; some must hold"):
        instruments.layer_gradients(dict.fromkeys("abcde", np.ones(2)))


def test_what_is_kept_is_measured_from_call_to_call(collected_elsewhere):
    kept, calls = [], []

    def step():
        calls.append(None)
        kept.append(bytearray(100_000))

    found = instruments.kept_memory(step, times=3, slack=99_000)
    assert not found and len(calls) == 4 and found.rows[0].worst == pytest.approx(100_000, rel=0.01) and instruments.kept_memory(step, times=2, slack=101_000)
    assert instruments.kept_memory(lambda: None).rows[0].verdict == "does not grow"


def test_shares_of_the_memory():
    report = instruments.memory_use(few=[np.zeros(25), "text"], most=(np.zeros(70), {"a": [np.zeros(5)]}), none={})
    assert [(row.name, row.verdict) for row in report.rows] == [("most", "600 B, 75 %"), ("few", "200 B, 25 %"), ("none", "0 B, 0 %")]
    assert instruments.memory_use(none=()).rows[0].verdict == "0 B, 0 %" and report.title == "memory"


def test_a_slice_on_the_edge():
    correct = np.arange(10) < 8
    slices = {"all": np.ones(10, bool), "right": correct, "most": np.arange(10) % 5 > 0, "half": np.arange(10) > 5}
    report = instruments.by_slice(correct, slices)
    assert {row.name: row.verdict for row in report.rows} == {
        "all": "80 % right of 10", "right": "100 % right of 8", "most": "75 % right of 8: far below the 100 % elsewhere",
        "half": "50 % right of 4: far below the 100 % elsewhere",
    }  # fmt: skip
    assert [row.holds for row in report.rows] == [True, True, False, False] and report.rows[3].worst == 0.5
    assert [row.holds for row in instruments.by_slice(correct, slices, margin=0.25).rows] == [True, True, True, False]
    for bad in (correct[None], np.full(10, 0.5), np.array(True)):
        with pytest.raises(ValueError, match="correct (had|was)"):
            instruments.by_slice(bad, slices)
    with pytest.raises(ValueError, match="slices was empty"):
        instruments.by_slice(correct, {})
