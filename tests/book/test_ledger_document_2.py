"""What is document 2's own in the ledger: which claims notice a broken package, and figures that its notes speak of.

Its entries are checked in test_ledger.py, with those of document 1.
"""

import claims
import pytest

ENTRIES = [entry for entry in claims.load().values() if entry["document"] == 2]

# Each breaks the package in one place, and names claims that must notice.
BROKEN = {
    # the mask lets one later position through
    "attention.attention_mask = lambda t_q, t_k, mask, causal: np.tri(t_q, t_k, t_k - t_q + 1, dtype=bool) if causal else mask": {
        "d2-widget-row-the", "d2-widget-row-cat", "d2-s2-leakage", "d2-s3-mask-values", "d2-s3-causal", "d2-s3-multihead",
        "d2-s6-preblock", "d2-s9-parallel", "d2-s13-causal-isolation", "d2-s13-probability",
    },
    # no division by the root of d_k
    "attention.math = type('no root', (), {'sqrt': lambda x: 1.0})": {
        "d2-widget-mixed", "d2-s3-scaled-variance", "d2-s4-scores", "d2-s4-weights", "d2-s4-temperature-vs-head-dim", "d2-s5-grad-q",
        "d2-s5-code-gradients", "d2-s10-flash-exact", "d2-s14-reproduce",
    },
    # softmax's backward entry by entry
    "softmax.softmax_backward = lambda dy, cache: (cache.y * dy, {})": {
        "d2-s5-jacobian", "d2-s5-dy-ds", "d2-s5-dl-ds", "d2-s5-three-paths", "d2-s5-code-gradients", "d2-s13-derivative",
    },
    # the targets are not shifted
    "loss.next_token = lambda tokens: loss.NextToken(tokens[:, :-1], tokens[:, :-1], None, None)": {"d2-s2-shifted-target", "d2-s2-leakage"},
    # halves are rotated where neighbours should be; distances alone still count
    "position._pairs = lambda x, pairing: (x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :])": {"d2-s6-rope-formula"},
    "norm.rms_norm = lambda x, gamma, eps: norm.layer_norm(x, gamma, 0 * gamma, eps)": {"d2-s6-rmsnorm"},
    # the norm on the stream instead of in the branch
    "layers.pre_norm_block = layers.post_norm_block": {"d2-s6-preblock", "d2-s6-residual-stream"},
    # a cached token is taken for the first one
    "decoder.places = lambda tokens, kv_cache: np.arange(tokens.shape[1])": {"d2-s10-cache-equality"},
    "check.kv_bytes = lambda c, b, t, size: b * c.n_layers * t * c.n_heads * (c.d_k + c.d_v) * size": {
        "d2-kv-bytes", "d2-kv-1gib", "d2-s10-quantization", "d2-s13-shapes", "d2-s13-memory",
    },
    # what was summed under an old peak is not rescaled
    "tiled.online_softmax = lambda r, s, v: tiled.Running(r.peak, r.total + np.exp(s).sum(-1, keepdims=True), r.mixed + 2 * np.exp(s) @ v)": {
        "d2-s10-flash-exact",
    },
    "quantize.LARGEST = 300": {"d2-s10-quantization"},
    "lora.merge = lambda w, a, b, alpha: w + a @ b": {"d2-lora-formula"},
    "preference._log_sigmoid = lambda x: -np.exp(-x)": {"d2-s9-dpo"},
    "optimizer.adam = lambda params, grads, state=None, lr=1e-3: ({name: params[name] - lr * grads[name] for name in params}, state)": {
        "d2-s2-leakage", "d2-s8-too-good", "d2-s8-accumulation",
    },
}  # fmt: skip


@pytest.mark.parametrize("change", BROKEN)
def test_red_if_the_package_changes(change, that_notice):
    assert that_notice(change, BROKEN[change]) == BROKEN[change]


# ---- figures that notes and setups speak of -----------------------------------------------------


def test_row_that_the_key_of_sat_would_give():
    """The table's third row is not that of the query [1, 1]."""
    from byhand.worked.experiments import AttentionTable

    shares = 100 * AttentionTable(q=[(1, 1), (0, 1), (1, 1)]).attend()[0][2]
    assert all(claims.rounds_half_up(share, text) for share, text in zip(shares, ("24.8", "24.8", "50.3"), strict=True))


def test_difference_of_the_listing():
    from ledger import worked_row

    assert claims.rounds_half_up(1e12 * worked_row.furthest_apart(1e-5), "3.7")


def test_share_of_the_lowest_weight():
    from ledger.document_2_attention import worked_example

    share = claims.lookup("d2-s4-highest-weight")["exact"]["share_of_second_output_from_the_lowest_weight_key"]
    assert claims.rounds_half_up(share, "0.3956") and claims.rounds_half_up(worked_example()["output"][1], "0.7967")
    assert abs(worked_example()["output"].sum() - 2) < 1e-12


def test_loss_that_training_without_a_mask_reaches():
    from ledger.document_2_objective import leakage

    found = leakage()
    assert found["leaky"] < 0.3 and abs(found["chance"] - 2.079) < 5e-4 < found["leaky, used"] - found["chance"]


# ---- the pages ----------------------------------------------------------------------------------


def test_every_entry_names_its_page():
    assert all(entry["page"].startswith("stack/") for entry in ENTRIES)
