"""The payload's formula, the peak, and what a pass may leave behind."""

from types import SimpleNamespace

import numpy as np
import pytest

from byhand import Config, check
from byhand.check.memory import measured, size_text
from byhand.numpy import decoder
from byhand.numpy.attention import repeat_heads

CONFIG = Config(
    d_model=32, n_heads=8, n_kv_heads=2, d_k=16, d_v=16, d_ff=32, n_layers=6, source_vocab=1, target_vocab=20,
    norm="pre", norm_kind="rms", positions="rope",
)  # fmt: skip
PARAMS = decoder.init(CONFIG, dtype=np.float32)
TOKENS = np.random.default_rng(0).integers(0, 20, (2, 64))


def _failed(report):
    return {row.name for row in report.failures}


def test_the_documents_example():
    llama = Config(d_model=4096, n_heads=32, n_kv_heads=8, d_ff=1, n_layers=32, source_vocab=1, target_vocab=2)
    assert check.kv_bytes(llama, 1, 8192, 2) == 2**30
    assert check.kv_bytes(Config(**{**vars(llama), "n_kv_heads": 32}), 1, 8192, 2) == 2**32


def test_a_head_may_have_another_width_for_values():
    config = Config(**{**vars(CONFIG), "d_v": 3})
    out = decoder.forward(decoder.init(config), config, TOKENS, keep=False)
    assert check.kv_bytes(config, 2, 64, 8) == out.kv_cache.nbytes == 2 * 6 * 64 * 2 * (16 + 3) * 8


def test_every_byte_of_a_lean_pass_has_its_place():
    report = check.memory_accounting(PARAMS, CONFIG, TOKENS).require()
    parts = report.parts
    assert parts["payload"] == check.kv_bytes(CONFIG, 2, 64, 4) and parts["logits"] == 2 * 64 * 20 * 4
    assert parts["weights"] == sum(value.nbytes for value in PARAMS.values())
    assert parts["peak"] == parts["weights"] + parts["payload"] + parts["logits"] + parts["working arrays"]
    assert parts["working arrays"] > 2 * 2 * 8 * 64 * 64 * 4  # at least scores and weights of one block
    assert [row.holds for row in report.rows] == [True, True, None, None, None, None]
    assert report.title == "Memory: every byte has its place"


def test_what_is_kept_for_a_backward_is_named():
    report = check.memory_accounting(PARAMS, CONFIG, TOKENS, decoder.forward)
    assert _failed(report) == {"only cache and logits are left"}
    assert report.parts["left over"] > 6 * 2 * 8 * 64 * 64 * 4


def test_a_cache_of_repeated_heads_is_named():
    def forward(params, config, tokens):
        out = decoder.forward(params, config, tokens, keep=False)
        cache = SimpleNamespace(keys=[repeat_heads(k, 4) for k in out.kv_cache.keys], values=[repeat_heads(v, 4) for v in out.kv_cache.values])
        return SimpleNamespace(logits=out.logits, kv_cache=cache)

    report = check.memory_accounting(PARAMS, CONFIG, TOKENS, forward)
    assert _failed(report) == {"KV payload is the formula's"}
    row = report["KV payload is the formula's"]
    assert row.verdict == "fails, 768 KiB for 192 KiB" and row.worst == (768 - 192) * 1024
    assert "1 of 2 fail" in report.title


def test_a_budget_that_forgot_what_is_not_payload():
    payload = check.kv_bytes(CONFIG, 2, 64, 4)
    report = check.memory_accounting(PARAMS, CONFIG, TOKENS, budget=payload)
    assert _failed(report) == {"the peak is within the budget"} and report.rows[-1].worst == report.parts["peak"] - payload
    assert report.rows[-1].verdict == f"{size_text(report.parts['peak'])} does not fit into 192 KiB" and report.rows[0].worst == 0
    check.memory_accounting(PARAMS, CONFIG, TOKENS, budget=100 * payload).require()


def test_measuring_inside_a_measurement_leaves_it_running():
    import tracemalloc

    tracemalloc.start()
    try:
        parts = check.memory_accounting(PARAMS, CONFIG, TOKENS).parts
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    alone = check.memory_accounting(PARAMS, CONFIG, TOKENS).parts
    assert not tracemalloc.is_tracing()
    assert abs(parts["peak"] - alone["peak"]) < 0.02 * alone["peak"]


def test_the_peak_of_a_call_and_what_it_leaves():
    result, held, peak = measured(lambda: (np.zeros(10_000) + np.ones(10_000)).sum() + np.ones(5_000))
    assert result.shape == (5_000,) and 40_000 <= held < 42_000 and 240_000 <= peak < 290_000


@pytest.mark.parametrize(("bad", "name"), [((0, 4, 2), "batch"), ((1, 2.0, 2), "time"), ((1, 4, True), "bytes_per_number")])
def test_counts_that_cannot_be_meant(bad, name):
    with pytest.raises(ValueError, match=f"{name} was"):
        check.kv_bytes(CONFIG, *bad)


@pytest.mark.parametrize(("size", "words"), [
    (0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1023 * 1024, "1023 KiB"), (1.5 * 2**20, "1.5 MiB"), (2**30, "1 GiB"), (2**51, "2048 TiB"),
])  # fmt: skip
def test_sizes_in_words(size, words):
    assert size_text(size) == words
