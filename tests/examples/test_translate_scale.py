"""The formulas of what a step costs against what is counted; and what leaving an ingredient out does to the model."""

import json

import numpy as np
import pytest
import torch
from translate import scale
from translate.ablations import VARIANTS, WithoutCausalMask, WithoutPaddingMask, WithoutResiduals, WithoutScaling, ablations
from translate.results import RESULTS
from translate_runs import tiny

from byhand import Config
from byhand.torch.transformer import Transformer

CONFIGS = [
    Config(32, 4, 48, 2, source_vocab=50, target_vocab=60),
    Config(24, 2, 40, 3, source_vocab=11, target_vocab=13, tied=True),
]
SIZES = [(3, 7, 5), (2, 4, 9), (1, 6, 6)]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("sizes", SIZES)
def test_operations_and_kept_numbers_are_as_counted(config, sizes):
    assert scale.operations(config, *sizes) == scale.counted_operations(config, *sizes)
    assert scale.kept(config, *sizes) == scale.counted_kept(config, *sizes)


def test_parameters_are_those_of_the_module():
    for config in CONFIGS:
        assert scale.parameters(config) == sum(p.numel() for p in Transformer(config).parameters())


def test_the_state_of_the_optimizer_is_as_large_as_said():
    module = Transformer(CONFIGS[0])
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 2, dtype=torch.long), torch.ones(1, 2, dtype=torch.long)).sum().backward()
    optimizer.step()
    held = sum(value.numel() * 4 for state in optimizer.state.values() for name, value in state.items() if name != "step")
    said = scale.state_bytes(scale.parameters(CONFIGS[0]))
    assert said["Adam"] == held and said["weights"] == said["gradients"] == held // 2
    assert sum(scale.state_bytes(10, "mixed").values()) == sum(said.values()) / said["weights"] * 40
    with pytest.raises(ValueError, match="int8"):
        scale.state_bytes(1, "int8")


def test_stored_traffic_of_two_processes_is_what_the_formulas_say():
    found = json.loads((RESULTS / "traffic.json").read_text())
    n, root = found["weights"], found["fsdp"]["root"]
    assert n == scale.parameters(scale.CONFIG) and found["processes"] == 2
    assert found["ddp"] == {"all-reduce": 4 * n, "own weights": n}
    assert found["fsdp"]["all-gather"] == 4 * (2 * (n - root) + root) and found["fsdp"]["reduce-scatter"] == 4 * n
    assert found["fsdp"]["own weights"] * 2 == n
    sent = scale.sent("all-gather", found["fsdp"]["all-gather"], 2) + scale.sent("reduce-scatter", found["fsdp"]["reduce-scatter"], 2)
    assert scale.sharded(4 * n, 2, 4 * root) == sent


@pytest.mark.parametrize("processes", [2, 3, 8])
def test_a_ring_sends_what_the_formula_says(processes):
    """Gathering: in each of p − 1 rounds every process hands one share on; adding up is scattering sums and gathering them."""
    size = 24
    assert scale.sent("all-gather", size, processes) == (processes - 1) * size / processes == scale.sent("reduce-scatter", size, processes)
    assert scale.sent("all-reduce", size, processes) == 2 * scale.sent("all-gather", size, processes)
    with pytest.raises(ValueError, match="broadcast"):
        scale.sent("broadcast", size, processes)


@pytest.mark.parametrize("stages, microbatches", [(1, 4), (2, 1), (4, 4), (4, 16)])
def test_the_bubble_is_what_a_schedule_shows(stages, microbatches):
    ends = np.zeros((stages, microbatches))
    for m in range(microbatches):
        for s in range(stages):
            ends[s, m] = 1 + max(ends[s, m - 1] if m else 0, ends[s - 1, m] if s else 0)
    assert scale.bubble(stages, microbatches) == pytest.approx(1 - microbatches / ends.max())


def test_what_is_left_out_is_left_out():
    config = CONFIGS[0]
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randint(50, (2, 6), generator=generator), torch.randint(60, (2, 5), generator=generator)
    lengths = torch.tensor([6, 4]), torch.tensor([5, 3])
    models = {make: make(config, 0) for make in (Transformer, WithoutCausalMask, WithoutPaddingMask, WithoutResiduals, WithoutScaling)}
    logits = {make: model(source, target, *lengths) for make, model in models.items()}
    for make, value in logits.items():
        assert make is Transformer or not torch.allclose(value, logits[Transformer]), make
    changed = target.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 60
    moved = {make: (model(source, changed, *lengths) - logits[make])[0, :4].abs().max() > 1e-6 for make, model in models.items()}
    assert [make for make, some in moved.items() if some] == [WithoutCausalMask]
    padded = source.clone()
    padded[1, 4:] = 7
    moved = {make: (model(padded, target, *lengths) - logits[make]).abs().max() > 1e-6 for make, model in models.items()}
    assert [make for make, some in moved.items() if some] == [WithoutPaddingMask]
    d_k = config.d_k
    by_hand = Transformer(config, 0)
    with torch.no_grad():
        for name, p in by_hand.named_parameters():
            if name.endswith("w_q"):
                p.mul_(d_k**0.5)
    torch.testing.assert_close(by_hand(source, target, *lengths), logits[WithoutScaling])


def test_each_variant_runs_and_is_scored():
    found = ablations(tiny(training__steps=2, training__checkpoint_every=2), [1], say=lambda text: None)
    assert found["left out"].keys() == VARIANTS.keys()
    assert all({"loss", "token accuracy", "exact"} <= scores[0].keys() for scores in found["left out"].values())
