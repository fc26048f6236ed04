"""The shift that makes targets of the next tokens, and loss masks."""

import numpy as np
import pytest

from byhand.check import agreement
from byhand.numpy.loss import cross_entropy, next_token

TOKENS = np.array([[5, 1, 2, 3], [6, 4, 4, 0]])


def test_each_position_is_asked_for_the_token_after_it():
    batch = next_token(TOKENS)
    assert batch.inputs.tolist() == [[5, 1, 2], [6, 4, 4]] and batch.targets.tolist() == [[1, 2, 3], [4, 4, 0]]
    assert batch.lengths is None and batch.mask is None


def test_lengths_and_masks_of_tokens_become_those_of_targets():
    learned = np.array([[False, False, True, True], [False, True, True, True]])  # a prompt of two tokens, and one of one
    batch = next_token(TOKENS, np.array([4, 3]), learned)
    assert batch.lengths.tolist() == [3, 2]
    assert batch.mask.tolist() == [[False, True, True], [True, True, True]]
    weights = batch.mask & (np.arange(3) < batch.lengths[:, None])
    logits = np.random.default_rng(0).normal(size=(2, 3, 7))
    value, dlogits = cross_entropy(logits, batch.targets, lengths=batch.lengths, mask=batch.mask)
    assert ((dlogits != 0).any(-1) == weights).all()
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    by_hand = -np.take_along_axis(log_p, batch.targets[..., None], -1)[..., 0][weights].mean()
    assert value == pytest.approx(by_hand)


@pytest.mark.parametrize("reduction", ["mean", "sum", "last"])
def test_a_mask_is_as_good_as_ignored_targets(reduction):
    rng = np.random.default_rng(1)
    logits, targets, mask = rng.normal(size=(3, 5, 6)), rng.integers(0, 6, (3, 5)), rng.random((3, 5)) < 0.6
    mask[0, -1] = True
    value, dlogits = cross_entropy(logits, targets, 0.1, mask=mask, reduction=reduction)
    ignored, dignored = cross_entropy(logits, np.where(mask, targets, -100), 0.1, ignore_index=-100, reduction=reduction)
    assert value == pytest.approx(ignored, rel=1e-14) and agreement(dlogits, dignored) < 1e-15
    assert mask.any() and not mask.all()


def test_a_masked_target_need_not_be_a_class():
    targets, mask = np.array([[1, 99]]), np.array([[True, False]])
    assert np.isfinite(cross_entropy(np.zeros((1, 2, 3)), targets, mask=mask)[0])
    with pytest.raises(IndexError, match="targets held the class 99"):
        cross_entropy(np.zeros((1, 2, 3)), targets)


def test_a_mask_that_excludes_everything():
    with pytest.raises(ValueError, match="targets leave no position to score: every one is ignored, masked, or past its sequence's length"):
        cross_entropy(np.zeros((2, 4, 7)), TOKENS, mask=np.zeros((2, 4), bool))
    with pytest.raises(ValueError, match="targets leave no position to score"):  # what the lengths leave, the mask takes
        cross_entropy(np.zeros((2, 4, 7)), TOKENS, lengths=np.array([1, 1]), mask=np.arange(8).reshape(2, 4) % 4 > 0)


@pytest.mark.parametrize("mask", [np.ones((2, 3), bool), np.ones((2, 4), int), np.ones(4, bool)])
def test_a_mask_that_cannot_be_meant(mask):
    with pytest.raises(ValueError, match=r"mask had dtype .*; it must be booleans of shape \(2, 4\)"):
        cross_entropy(np.zeros((2, 4, 7)), TOKENS, mask=mask)
    with pytest.raises(ValueError, match="mask had dtype"):
        next_token(TOKENS, mask=mask)


@pytest.mark.parametrize(("tokens", "lengths", "words"), [
    (TOKENS[:, :1], None, r"tokens had shape \(2, 1\)"),
    (TOKENS[0], None, r"tokens had shape \(4,\)"),
    (TOKENS, np.array([4, 1]), "lengths held 1; each must be at least 2"),
    (TOKENS, np.array([4, 5]), "lengths held 5"),
])  # fmt: skip
def test_tokens_that_have_no_next(tokens, lengths, words):
    with pytest.raises(ValueError, match=words):
        next_token(tokens, lengths)
