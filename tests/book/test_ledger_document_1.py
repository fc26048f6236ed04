"""What is document 1's own in the ledger: which claims notice a broken package, and figures that its notes speak of.

Its entries are checked in test_ledger.py, with those of document 2.
"""

import claims
import pytest

ENTRIES = [entry for entry in claims.load().values() if entry["document"] == 1]

# Each breaks the package in one place, and names claims that must notice.
BROKEN = {
    "softmax.softmax_backward = lambda dy, cache: (cache.y * dy, {})": {"d1-bwd-ds", "d1-bwd-dq", "d1-bwd-dk", "d1-bwd-dwq"},
    "attention.math.sqrt = lambda x: 1.0": {"d1-scores", "d1-softmax-a00", "d1-qkv-attention-formula", "d1-bwd-dq", "d1-cross-o"},
    "loss.position_weights = lambda targets, *a, **k: np.ones(targets.shape)": {"d1-loss-value", "d1-end-loss"},
    "optimizer.noam = lambda step, d_model, warmup=4000: 1e-3": {"d1-adam-lr1", "d1-adam-w1", "d1-adam-lr-formula"},
}


@pytest.mark.parametrize("change", BROKEN)
def test_red_if_the_package_changes(change, that_notice):
    assert that_notice(change, BROKEN[change]) == BROKEN[change]


# ---- figures that notes and setups speak of -----------------------------------------------------


def test_step_at_which_am_overtakes():
    from ledger.document_1_update import training_of_the_output_layer_alone

    entry = claims.lookup("d1-adam-run-length")
    assert training_of_the_output_layer_alone()[1] == entry["exact"]["step_am_overtakes_when_example_repeated"]


def test_memory_with_positions_and_both_heads_alike():
    """The other completion of the toy, whose memory row the notes on positions quote."""
    from dataclasses import replace

    import numpy as np
    from ledger.document_1_encoder import HEAD, memory_of

    from byhand import toy

    case = toy.exact()
    head_1 = case.params[f"{HEAD}.w_v"][:, :2]
    memory = memory_of(replace(case, config=replace(case.config, eps=0.0)), **{f"{HEAD}.w_v": np.hstack([head_1, head_1])})
    np.testing.assert_allclose(memory, claims.lookup("d1-enc")["extra"]["enc_with_true_pe_sum"], rtol=0, atol=1e-12)


# ---- the pages ----------------------------------------------------------------------------------


def test_every_entry_names_its_page():
    assert all(entry["page"] == "intro" or entry["page"].startswith("step/") for entry in ENTRIES)
