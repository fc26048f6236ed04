from dataclasses import replace

import numpy as np

import byhand.numpy as bn
import byhand.sympy as bs


def test_bradley_terry_and_dpo(rng, assert_proved, assert_agrees):
    c, r, rc, rr = rng.normal(-2, 1, (4, 1))
    derived = bs.preference.bradley_terry_derivation()
    assert_proved(derived)
    _, slopes = bn.preference.bradley_terry(c, r)
    for name, slope in zip(("dchosen", "drejected"), slopes):
        assert_agrees(derived[name].numeric(chosen=c, rejected=r), slope)

    derived = bs.preference.dpo_derivation()
    assert_proved(derived)
    _, slopes = bn.preference.dpo(c, r, rc, rr, 0.7)
    for name, slope in zip(("dchosen", "drejected"), slopes):
        assert_agrees(derived[name].numeric(chosen=c, rejected=r, reference_chosen=rc, reference_rejected=rr, beta=0.7), slope)


def test_dpo_over_whole_answers(rng, assert_agrees):
    z, rc, rr = rng.normal(size=(1, 1, 4)), np.array([-1.0]), np.array([-2.0])
    targets, mask = np.array([[0]]), np.array([[True]])
    (c, one), (r, two) = (bn.preference.log_likelihood(z, targets + k, mask) for k in (0, 1))
    _, slopes = bn.preference.dpo(c, r, rc, rr, 0.7)
    by_hand = sum(bn.preference.log_likelihood_backward(slope, cache)[0] for slope, cache in zip(slopes, (one, two)))
    derived = bs.preference.dpo_derivation(answers=4)["dlogits"]
    assert derived.difference_is_zero
    assert_agrees(derived.numeric(logits=z, reference_chosen=rc, reference_rejected=rr, beta=0.7), by_hand)


def test_expected_reward(rng, assert_proved, assert_agrees):
    derived = bs.preference.expected_reward_derivation()
    assert_proved(derived)
    z, reward, reference = rng.normal(size=3), rng.normal(size=3), np.array([0.2, 0.5, 0.3])
    _, slope = bn.preference.expected_reward(z, reference, reward, 0.6)
    assert_agrees(derived["dlogits"].numeric(logits=z, reference=reference, reward=reward, beta=0.6), slope)


def test_wrong_rules_do_not_pass():
    dpo = bs.preference.dpo_derivation()["dchosen"]
    assert not replace(dpo, textbook=-dpo.textbook).difference_is_zero
    reward = bs.preference.expected_reward_derivation()["dlogits"]
    assert not replace(reward, textbook=reward.textbook * 2).difference_is_zero
