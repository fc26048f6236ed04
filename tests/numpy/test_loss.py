import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement, gradient_check
from byhand.numpy.loss import cross_entropy, entropy, smoothed_targets

sizes = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)
IGNORED = -100


def _by_pytorch(logits, targets, **options):
    import torch

    leaf = torch.tensor(logits, requires_grad=True)
    value = torch.nn.functional.cross_entropy(leaf.flatten(0, 1), torch.tensor(targets).flatten(), ignore_index=IGNORED, **options)
    value.backward()
    return value, leaf.grad


@given(batch=sizes, time=sizes, vocab=sizes, smoothing=st.sampled_from((0.0, 0.1, 0.7)), reduction=st.sampled_from(("mean", "sum")), seed=seeds)
def test_against_pytorch_with_ignored_positions(batch, time, vocab, smoothing, reduction, seed):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(batch, time, vocab))
    targets = rng.integers(0, vocab, (batch, time))
    targets[rng.random((batch, time)) < 0.3] = IGNORED
    targets[0, 0] = 0
    value, dlogits = cross_entropy(logits, targets, smoothing, IGNORED, reduction=reduction)
    right, right_gradient = _by_pytorch(logits, targets, label_smoothing=smoothing, reduction=reduction)
    assert isinstance(value, float)
    assert agreement(value, right) < 1e-10 and agreement(dlogits, right_gradient) < 1e-10


@given(batch=sizes, time=sizes, vocab=sizes, smoothing=st.sampled_from((0.0, 0.1)), reduction=st.sampled_from(("mean", "sum", "last")), seed=seeds)
def test_against_central_differences_with_lengths(batch, time, vocab, smoothing, reduction, seed):
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(size=(batch, time, vocab)), rng.integers(0, vocab, (batch, time))
    options = dict(smoothing=smoothing, lengths=rng.integers(1, time + 1, batch), reduction=reduction)
    _, dlogits = cross_entropy(logits, targets, **options)
    if vocab == 1:  # certain, whatever the logit: nothing to check by differences
        assert not dlogits.any()
    else:
        gradient_check(lambda z: cross_entropy(z, targets, **options)[0], logits, dlogits).require()


@given(batch=sizes, time=sizes, vocab=sizes, seed=seeds)
def test_lengths_ignore_what_lies_past_them(batch, time, vocab, seed):
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(size=(batch, time, vocab)), rng.integers(0, vocab, (batch, time))
    lengths = rng.integers(1, time + 1, batch)
    past = np.arange(time) >= lengths[:, None]
    value, dlogits = cross_entropy(logits, targets, 0.1, lengths=lengths)
    right, right_gradient = _by_pytorch(logits, np.where(past, IGNORED, targets), label_smoothing=0.1)
    assert agreement(value, right) < 1e-10 and agreement(dlogits, right_gradient) < 1e-10
    assert not dlogits[past].any()


@given(batch=sizes, time=sizes, vocab=sizes, seed=seeds)
def test_last_scores_each_sequences_last_position(batch, time, vocab, seed):
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(size=(batch, time, vocab)), rng.integers(0, vocab, (batch, time))
    lengths = rng.integers(1, time + 1, batch)
    value, dlogits = cross_entropy(logits, targets, 0.1, lengths=lengths, reduction="last")
    rows = np.arange(batch)
    right, right_gradient = _by_pytorch(logits[rows, lengths - 1][:, None], targets[rows, lengths - 1][:, None], label_smoothing=0.1)
    assert agreement(value, right) < 1e-10
    assert agreement(dlogits[rows, lengths - 1], right_gradient[:, 0]) < 1e-10
    assert np.count_nonzero(dlogits.any(-1)) <= batch


def test_the_gradient_is_p_minus_q_and_its_rows_sum_to_0():
    rng = np.random.default_rng(1)
    logits, targets = rng.normal(size=(3, 4, 5)), rng.integers(0, 5, (3, 4))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    q = smoothed_targets(targets, 5, 0.1)
    value, dlogits = cross_entropy(logits, targets, 0.1, reduction="sum")
    np.testing.assert_allclose(q.sum(-1), 1)
    np.testing.assert_allclose(dlogits, p - q, atol=1e-14)
    np.testing.assert_allclose(dlogits.sum(-1), 0, atol=1e-14)
    assert value == pytest.approx(-(q * np.log(p)).sum())


def test_mean_last_and_sum_of_one_position_are_the_same():
    logits, targets = np.array([[[1.0, 0.0, -1.0, 0.0]]]), np.array([[2]])
    results = [cross_entropy(logits, targets, 0.1, reduction=r) for r in ("mean", "sum", "last")]
    assert {value for value, _ in results} == {results[0][0]}
    assert results[0][0] == pytest.approx(2 * np.log(1 + np.e) - 0.1, abs=1e-12)  # document 1's loss in closed form


def test_large_logits_do_not_overflow_and_nothing_changes(unchanged):
    logits, targets = np.array([[[1e4, -1e4, 0.0]]]), np.array([[1]])
    with unchanged(logits, targets):
        value, dlogits = cross_entropy(logits, targets)
    assert value == 2e4 and dlogits.tolist() == [[[1, -1, 0]]]


def test_float32_stays_float32():
    logits = np.random.default_rng(2).normal(size=(2, 3, 4))
    targets = np.array([[0, 1, 2], [3, 2, 1]])
    value, dlogits = cross_entropy(logits.astype(np.float32), targets, 0.1)
    right, right_gradient = cross_entropy(logits, targets, 0.1)
    assert dlogits.dtype == np.float32
    assert agreement(value, right) < 1e-6 and agreement(dlogits, right_gradient) < 1e-6


LOGITS, TARGETS = np.zeros((2, 3, 4)), np.array([[0, 1, 2], [3, 0, 1]])


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 1.5, float("nan")])
def test_smoothing_outside_its_range(smoothing):
    with pytest.raises(ValueError, match=r"smoothing was .*; it must (lie in \[0, 1\)|be a finite number)"):
        cross_entropy(LOGITS, TARGETS, smoothing)


def test_every_target_ignored():
    with pytest.raises(ValueError, match="targets leave no position to score"):
        cross_entropy(LOGITS, np.full((2, 3), IGNORED), ignore_index=IGNORED)


@pytest.mark.parametrize("target", [4, -1])
def test_a_target_outside_the_vocabulary(target):
    targets = TARGETS.copy()
    targets[1, 2] = target
    with pytest.raises(IndexError, match=rf"targets held the class {target}; it must lie in \[0, 4\)"):
        cross_entropy(LOGITS, targets)


def test_an_ignored_target_need_not_be_a_class():
    targets = np.array([[0, 1, 99], [3, 99, 1]])
    value, _ = cross_entropy(LOGITS, targets, ignore_index=99)
    assert value == pytest.approx(np.log(4))


def test_a_reduction_that_is_unknown():
    with pytest.raises(ValueError, match="reduction was 'max'; it must be one of 'mean', 'sum', 'last'"):
        cross_entropy(LOGITS, TARGETS, reduction="max")


@pytest.mark.parametrize("shape", [(2, 4), (3, 2), (2,)])
def test_targets_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"targets had shape .* and logits \(2, 3, 4\)"):
        cross_entropy(LOGITS, np.zeros(shape, int))


def test_targets_that_are_not_integers():
    with pytest.raises(ValueError, match="targets was float64; it must be a NumPy array of integers"):
        cross_entropy(LOGITS, TARGETS.astype(float))


@pytest.mark.parametrize(
    ("lengths", "words"),
    [([3, 4], "lengths held 4"), ([0, 3], "lengths held 0"), ([3], "lengths had"), ([1.0, 2.0], "lengths had dtype float64")],
)
def test_lengths_that_cannot_be(lengths, words):
    with pytest.raises(ValueError, match=words):
        cross_entropy(LOGITS, TARGETS, lengths=np.array(lengths))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_finite(bad):
    logits = LOGITS.copy()
    logits[1, 0, 2] = bad
    with pytest.raises(ValueError, match=rf"logits held {bad} at \(1, 0, 2\); every entry must be a finite number"):
        cross_entropy(logits, TARGETS)


@pytest.mark.parametrize(("change", "words"), [
    ({"logits": [[[0.0, 1.0]]]}, "logits was list; it must be a NumPy array"),
    ({"logits": np.zeros((1, 1, 2), int)}, "logits had dtype int64; it must be float32 or float64"),
    ({"logits": np.zeros((1, 1, 0))}, r"logits \(1, 1, 0\)"),
    ({"targets": [[0]]}, "targets was list; it must be a NumPy array"),
    ({"smoothing": None}, "smoothing was None"),
    ({"smoothing": "0.1"}, "smoothing was '0.1'"),
    ({"ignore_index": 0.5}, "ignore_index was 0.5; it must be None or a whole number"),
])  # fmt: skip
def test_a_kind_that_cannot_be_meant(change, words):
    with pytest.raises(ValueError, match=words):
        cross_entropy(**({"logits": np.zeros((1, 1, 2)), "targets": np.array([[1]])} | change))


def test_entropy_takes_zero_log_zero_as_zero():
    assert entropy(np.array([0.0, 1.0, 0.0])) == 0 and not np.signbit(entropy(np.array([0.0, 1.0])))
    np.testing.assert_allclose(entropy(np.array([[0.5, 0.5], [1.0, 0.0]])), [np.log(2), 0], rtol=1e-15)
    for smoothing in (0.0, 0.1):  # the least that the loss can be, with and without smoothing
        q = smoothed_targets(np.array(2), 4, smoothing)
        with np.errstate(divide="ignore"):
            logits = np.maximum(np.log(q), -800.0)[None, None]
        assert cross_entropy(logits, np.array([[2]]), smoothing)[0] == pytest.approx(entropy(q), abs=1e-15)
    for p in (np.array([1.5]), np.array([-0.1]), np.array([np.nan]), np.array([1]), np.float64(1), [0.5]):
        with pytest.raises(ValueError, match="p "):
            entropy(p)


def test_half_precision_is_refused_and_float32_does_not_overflow():
    for value in (np.zeros((1, 1, 10), np.float16), np.zeros((1, 1, 10), np.longdouble)):
        with pytest.raises(ValueError, match="logits had dtype float.*; it must be float32 or float64"):
            cross_entropy(value, np.array([[3]]))
    assert cross_entropy(np.zeros((1, 1, 100_000), np.float32), np.array([[3]]))[0] == pytest.approx(np.log(100_000), rel=1e-6)
    z, targets = np.random.default_rng(0).random((1, 20500, 30)), np.zeros((1, 20500), int)
    single, double = (cross_entropy(z.astype(dtype), targets, reduction="sum")[0] for dtype in (np.float32, np.float64))
    assert single == pytest.approx(double, rel=1e-6)


def test_a_vocabulary_of_one_token():
    """Whatever stands where nothing is scored."""
    logits, targets = np.array([[[3.0], [4.0]]]), np.array([[0, 7]])
    for how in (dict(ignore_index=7), dict(lengths=np.array([1])), dict(mask=np.array([[True, False]]))):
        loss, dlogits = cross_entropy(logits, targets, **how)
        assert loss == 0 and not dlogits.any()
