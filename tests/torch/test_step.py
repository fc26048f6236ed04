import numpy as np
import pytest

from byhand import toy
from byhand.check import agreement
from byhand.numpy import step as by_hand
from byhand.torch import step

CASES = ["document", "exact", "lively", "generic", "decoder"]


@pytest.mark.parametrize("name", CASES)
def test_every_parameter_and_stage_has_the_hand_written_gradient(name):
    case = getattr(toy, name)()
    ours, theirs = by_hand.run(case), step.run(case)
    assert abs(ours.loss - theirs.loss) < 1e-12
    assert agreement(ours.output.activations, theirs.activations) < 1e-10
    assert agreement(ours.gradients.params, theirs.gradients.params) < 1e-10
    shared = ours.gradients.stages.keys() & theirs.gradients.stages.keys()
    assert len(shared) == len([stage for stage in ours.gradients.stages if ".via_" not in stage and stage not in _aliases(case)])
    assert agreement(*({stage: run.gradients.stages[stage] for stage in shared} for run in (ours, theirs))) < 1e-10


def _aliases(case):
    """Inputs of a layer, which the forward pass knows under the name of what came before; and each query head's share of a head that several read."""
    sides = ("block",) if case.source is None else ("encoder", "decoder")
    shares = ("input", "attention.k_per_query_head", "attention.v_per_query_head")
    return {f"{side}.{i}.{share}" for side in sides for i in range(case.config.n_layers) for share in shares}


def test_a_stage_that_feeds_several_others_has_their_sum():
    case = toy.lively()
    theirs, ways = step.run(case).gradients.stages, by_hand.run(case).gradients.stages
    fork = "decoder.0.norm_2.out"
    both = ways[f"{fork}.via_residual"] + ways[f"{fork}.via_feed_forward"]
    assert np.abs(theirs[fork] - both).max() < 1e-12
    assert np.abs(theirs[fork] - ways[f"{fork}.via_residual"]).max() > 0.1


def test_the_positions_are_constants_without_a_gradient():
    stages = step.run(toy.lively()).gradients.stages
    assert "encoder.positions" not in stages and "encoder.input" in stages
