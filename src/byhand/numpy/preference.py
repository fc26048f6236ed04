"""Preferences: how well scores or a policy rank pairs of answers, and the gradients that teach them to."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..doors import whole
from .checks import check_finite, check_integers, check_mask, checked, plain, upstream
from .softmax import softmax

Array = np.ndarray
(softmax,) = plain(softmax)
Slopes = tuple[Array, Array]  # at the chosen answers and at the rejected ones


class Answers(NamedTuple):
    """Prompts with an answer each, right-padded and shifted by one; mask is True where the target is a token of the answer."""

    inputs: Int[Array, "pairs time"]
    targets: Int[Array, "pairs time"]
    mask: Bool[Array, "pairs time"]
    lengths: Int[Array, "pairs"]


class LikelihoodCache(NamedTuple):
    p: Float[Array, "batch time vocab"]
    targets: Int[Array, "batch time"]
    mask: Bool[Array, "batch time"]


def _check_likelihood(logits, targets, mask):
    check_integers("targets", targets)
    if logits.ndim != 3 or targets.shape != logits.shape[:2] or 0 in logits.shape:
        raise ValueError(f"targets had shape {targets.shape} and logits {logits.shape}; they must be (batch, time) and (batch, time, vocab)")
    mask = check_mask(mask, targets.shape)
    empty = np.flatnonzero(~mask.any(axis=1))
    if len(empty):
        raise ValueError(f"mask had no True in row {empty[0]}; every answer must have at least one token")
    scored = targets[mask]
    if scored.min() < 0 or scored.max() >= logits.shape[-1]:
        raise IndexError(f"targets held {scored.min()} to {scored.max()}; they must lie in [0, {logits.shape[-1]})")


def _check_two(chosen, rejected):
    _check_scores(chosen=chosen, rejected=rejected)


def _check_dpo(chosen, rejected, reference_chosen, reference_rejected, beta):
    _check_scores(chosen=chosen, rejected=rejected, reference_chosen=reference_chosen, reference_rejected=reference_rejected)
    _check_beta(beta)


def _check_policy(logits, reference, reward, beta):
    _check_beta(beta)
    check_finite(reference=reference, reward=reward)
    if logits.ndim != 1 or not logits.shape == reference.shape == reward.shape or not len(logits):
        raise ValueError(f"logits, reference and reward had shapes {logits.shape}, {reference.shape}, {reward.shape}; all must be (answers,)")
    if not np.isfinite(logits.max()):  # a single −∞ is an answer of probability 0
        raise ValueError(f"logits had {logits.max()} for its largest entry; that must be a finite number")
    if not (reference.min() > 0 and abs(reference.sum() - 1) <= 1e-6):  # NaN is neither
        raise ValueError(f"reference held {reference.min()} and summed to {reference.sum()}; it must be probabilities above 0 that sum to 1")


def _check_tilted(reference, reward, beta):
    _check_policy(reference, reference, reward, beta)


def _check_scores(**scores):
    shapes = {name: np.shape(value) for name, value in scores.items()}
    if len(set(shapes.values())) != 1 or len(shapes["chosen"]) != 1 or not shapes["chosen"][0]:
        raise ValueError(f"shapes were {shapes}; all must be (pairs,) with at least one pair")


def _check_beta(beta):
    if beta <= 0:
        raise ValueError(f"beta was {beta}; it must be a finite number above 0")


def _check_pairs(prompts, chosen, rejected):
    if not len(prompts) == len(chosen) == len(rejected) or not len(prompts):
        raise ValueError(f"there were {len(prompts)} prompts, {len(chosen)} chosen and {len(rejected)} rejected answers; as many are needed, and at least one")
    for name, group in (("prompts", prompts), ("chosen", chosen), ("rejected", rejected)):
        for i, tokens in enumerate(group):
            if not isinstance(tokens, (Sequence, np.ndarray)):
                raise ValueError(f"{name}[{i}] was {type(tokens).__name__}; it must be a list of tokens")
            if not len(tokens):
                raise ValueError(f"{name}[{i}] was empty; a pair needs a prompt and two answers, each of at least one token")
            for token in tokens:
                whole(f"{name}[{i}]", token, 0)


@checked(_check_pairs)
def pairs(prompts: Sequence[Sequence[int]], chosen: Sequence[Sequence[int]], rejected: Sequence[Sequence[int]]) -> tuple[Answers, Answers]:
    """Token lists as arrays: the chosen answers behind their prompts, and the rejected ones.

    Raises ValueError where the lists are not equally many or none, for tokens that are not whole numbers from 0, and for an
    empty prompt or answer: an empty answer has no probability to raise or to lower.
    """
    return _answers(prompts, chosen), _answers(prompts, rejected)


@checked(_check_likelihood)
def log_likelihood(
    logits: Float[Array, "batch time vocab"], targets: Int[Array, "batch time"], mask: Bool[Array, "batch time"]
) -> tuple[Float[Array, "batch"], LikelihoodCache]:
    """log π(y) = Σ_t log softmax(z_t)[y_t], over the positions where mask is True

    One number for each sequence, a sum and not a mean: a longer answer is less likely. Raises ValueError where the
    shapes do not fit, and for a sequence with no True in its mask; IndexError for a target outside the vocabulary.
    """
    mask = np.asarray(mask)
    labels = np.where(mask, targets, 0)  # what is not scored need not be a class
    log_p = _log_softmax(logits)
    right = np.take_along_axis(log_p, labels[..., None], axis=-1)[..., 0]
    return np.where(mask, right, 0).sum(axis=1), LikelihoodCache(np.exp(log_p), labels, mask)


@upstream(lambda cache: cache.mask.shape[:1])
def log_likelihood_backward(dy: Float[Array, "batch"], cache: LikelihoodCache) -> tuple[Float[Array, "batch time vocab"], dict]:
    """dz_tk = dy (1[k = y_t] − p_tk) where mask is True, else 0"""
    p, targets, mask = cache
    slope = np.where(mask, dy[:, None], 0)[..., None]
    dlogits = -slope * p
    at_target = np.take_along_axis(dlogits, targets[..., None], axis=-1) + slope
    np.put_along_axis(dlogits, targets[..., None], at_target, axis=-1)
    return dlogits, {}


@checked(_check_two)
def bradley_terry(chosen: Float[Array, "pairs"], rejected: Float[Array, "pairs"]) -> tuple[float, Slopes]:
    """L = −mean log σ(r_w − r_l);  ∂L/∂r_w = −σ(r_l − r_w)/n = −∂L/∂r_l

    The probability that an answer of score r_w is preferred to one of score r_l is taken to be σ(r_w − r_l), so only
    differences between scores mean anything. Returns the loss and its slopes at chosen and at rejected.
    Raises ValueError for arrays that are not of one shape (pairs,), empty, or not finite.
    Source: Bradley and Terry 1952; as a loss for a reward model Ouyang et al. 2022, equation 1.
    """
    margin = chosen - rejected
    slope = -_sigmoid(-margin) / len(margin)
    return float(-_log_sigmoid(margin).mean()), (slope, -slope)


@checked(_check_dpo)
def dpo(
    chosen: Float[Array, "pairs"],
    rejected: Float[Array, "pairs"],
    reference_chosen: Float[Array, "pairs"],
    reference_rejected: Float[Array, "pairs"],
    beta: float = 0.1,
) -> tuple[float, Slopes]:
    """L = −mean log σ(m),  m = β[log π(y_w)/π_ref(y_w) − log π(y_l)/π_ref(y_l)]

    ∂L/∂log π(y_w) = −β σ(−m)/n = −∂L/∂log π(y_l)

    All four are log-likelihoods of whole answers. It is bradley_terry with β
    log(π/π_ref) for the score.
    Returns the loss and its slopes at the policy's two.
    Raises ValueError for arrays that are not of one shape (pairs,), empty, or not
    finite, and a β that is not above 0.
    Source: Rafailov et al. 2023, equation 7.
    """
    better = beta * (chosen - reference_chosen)
    worse = beta * (rejected - reference_rejected)
    value, (slope, _) = bradley_terry.rule(better, worse)
    return value, (beta * slope, -beta * slope)


@checked(_check_policy, finite=False)
def expected_reward(
    logits: Float[Array, "answers"], reference: Float[Array, "answers"], reward: Float[Array, "answers"], beta: float
) -> tuple[float, Float[Array, "answers"]]:
    """J = Σ_y π(y) A(y),  A = r − β log(π/π_ref);  ∂J/∂z_k = π_k (A_k − J)

    The mean reward of a policy π = softmax(z) over a list of answers, less β times KL(π‖π_ref), with π_ref given as
    probabilities, and 0 · log 0 = 0: an answer of probability 0 adds nothing. To be raised, not lowered. Raises ValueError
    where the shapes differ, a reference is not above 0 or does not sum to 1, a reward is not finite, or β is not above 0.
    Source: Ouyang et al. 2022, equation 2, without its pretraining term.
    """
    p, _ = softmax(logits)
    advantage = np.where(p > 0, reward - beta * (_log_softmax(logits) - np.log(reference)), 0)
    value = float(p @ advantage)
    return value, p * (advantage - value)


@checked(_check_tilted)
def tilted(reference: Float[Array, "answers"], reward: Float[Array, "answers"], beta: float) -> Float[Array, "answers"]:
    """π*(y) = π_ref(y) e^(r(y)/β) / Z, the policy at which expected_reward is largest

    Raises as expected_reward does. Source: Rafailov et al. 2023, equation 4.
    """
    return softmax(np.log(reference) + reward / beta)[0]


def _log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _answers(prompts, answers):
    lengths = np.array([len(prompt) + len(answer) - 1 for prompt, answer in zip(prompts, answers)])
    shape = (len(lengths), lengths.max())
    inputs, targets, mask = np.zeros(shape, int), np.zeros(shape, int), np.zeros(shape, bool)
    for i, (prompt, answer) in enumerate(zip(prompts, answers)):
        tokens = [*prompt, *answer]
        inputs[i, : lengths[i]], targets[i, : lengths[i]] = tokens[:-1], tokens[1:]
        mask[i, len(prompt) - 1 : lengths[i]] = True
    return Answers(inputs, targets, mask, lengths)


def _log_sigmoid(x):
    """log σ(x) = −log(1 + e^(−x)), without overflow."""
    return -np.logaddexp(0, -x)


def _sigmoid(x):
    return np.exp(_log_sigmoid(x))
