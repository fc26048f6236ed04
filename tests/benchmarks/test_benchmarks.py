"""The comparisons run, compare the same things, and report; how long anything takes is nobody's test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_benchmarks_run_and_report():
    command = [sys.executable, "-m", "benchmarks", "step", "tiled", "decoding", "--seconds", "0", "--sizes", "toy", "--lengths", "64", "--contexts", "8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    about, _, _, heads, toy, _, _, _, tiled, _, _, _, decoding = done.stdout.splitlines()
    assert "one thread" in about and heads.split() == ["size", "NumPy", "PyTorch", "products", "ratio", "aim", "steps"]
    assert [line.split()[0] for line in (toy, tiled, decoding)] == ["toy", "64", "8"]


@pytest.mark.parametrize("which", ["EncoderDecoder", "Decoder"])
def test_the_expert_computes_the_same(which, monkeypatch):
    """In float64: the loss and its gradients, and the likeliest tokens one by one."""
    monkeypatch.syspath_prepend(str(ROOT))
    import numpy as np
    import torch

    import byhand.numpy as bn
    from benchmarks import decoding, expert, step

    if which == "Decoder":
        params = bn.decoder.init(decoding.CONFIG, seed=1, dtype=np.float32)
        prompt = np.arange(12)[None]
        ours = [int(token[0]) for token in bn.decoder.generate(params, decoding.CONFIG, prompt, 6)]
        assert list(decoding.token_by_token_in_torch(params, prompt, 6)) == ours
        return
    config = step.Config(8, 2, 16, 2, source_vocab=5, target_vocab=7)
    params = bn.transformer.init(config, seed=1, dtype=np.float32)
    source, decoder_input, targets = np.array([[0, 3, 4]]), np.array([[1, 2]]), np.array([[2, 6]])
    out = bn.transformer.forward(params, config, source, decoder_input)
    value, dlogits = bn.loss.cross_entropy(out.logits, targets, 0.1)
    grads = bn.transformer.backward(dlogits, out.cache)
    model = expert.EncoderDecoder(params, config)
    loss = model.loss(*map(torch.as_tensor, (source, decoder_input, targets)), 0.1)
    loss.backward()
    assert abs(loss.item() - value) < 1e-5
    packed = np.concatenate([grads[f"encoder.0.self_attention.w_{letter}"] for letter in "qkv"], axis=1).T
    np.testing.assert_allclose(model.w["encoder.0.self_attention.qkv"].grad, packed, atol=1e-5)
    np.testing.assert_allclose(model.w["source_embedding"].grad, grads["source_embedding"], atol=1e-5)


def test_the_site_is_weighed_by_kind(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import site

    for name, size in {"a/page.html": 5, "a/b/other.html": 6, "code.js": 7, "CNAME": 8}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    assert site.sizes(tmp_path) == {"pages": 11, "scripts and styles": 7, "fonts": 0, "pictures": 0, "the rest": 8}


def test_what_the_appendix_shows_was_stored_by_the_benchmark():
    stored = json.loads((ROOT / "book/appendix/benchmarks.json").read_text("utf-8"))
    assert [row["size"] for row in stored["step"]] == ["toy", "d 128", "d 512"]
    assert [row["length"] for row in stored["tiled"]] == [1024, 2048, 4096, 8192]
    assert [row["context"] for row in stored["decoding"]] == [256, 1024]
    assert stored["about"].keys() >= {"date", "machine", "NumPy", "PyTorch", "threads"}
