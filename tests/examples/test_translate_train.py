"""The training loop on one process, and its checkpoints."""

import copy
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from translate import checkpoint
from translate.__main__ import main
from translate.data import Example, batch, pairs
from translate.evaluate import average, score, tensors, translations
from translate.model import Translator
from translate.settings import from_dict, load
from translate.train import Transformer, corpus, train
from translate.vocabulary import END
from translate_runs import TINY, run, run_of, same, tiny

from byhand.torch.loss import cross_entropy
from byhand.torch.optimizer import noam

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "examples" / "translate" / "configs" / "small.yaml"


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """An uninterrupted run of 10 steps: epochs 1 to 3, four batches each."""
    folder = tmp_path_factory.mktemp("steady")
    return folder, run(tiny(), folder)


@pytest.fixture(scope="module")
def material():
    return corpus(tiny())


# ---- the loop ----


def test_the_log_has_the_rate_that_was_used(steady):
    log = steady[1].log
    assert [line["rate"] for line in log] == [noam(step, 16, 6) for step in range(1, 11)]
    assert [line["epoch"] for line in log] == [1] * 4 + [2] * 4 + [3] * 2
    assert [json.loads(line) for line in (steady[0] / "log.jsonl").read_text().splitlines()] == log


def test_the_rate_is_the_optimizers_own_inside_the_loop(tmp_path, monkeypatch):
    rates, step = [], torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self, *a, **k: (rates.append(self.param_groups[0]["lr"]), step(self, *a, **k))[1])
    run(tiny(training__steps=8, training__checkpoint_every=8), tmp_path)
    assert rates[:8] == [noam(step, 16, 6) for step in range(1, 9)]


@pytest.mark.parametrize("count", [21, 5])
def test_microbatches_of_unequal_size_give_the_gradient_of_the_whole(material, count):
    grads = []
    for pieces in (1, 2, 3):
        one = run_of(tiny(training__microbatches=pieces, training__clip=None), material)
        one._update(np.arange(count))
        grads.append(one.module.grads())
    for other in grads[1:]:
        for name, value in grads[0].items():
            np.testing.assert_allclose(other[name], value, atol=1e-6)


def test_a_padded_sentence_counts_as_it_does_alone(material):
    module = Transformer(material_config(material), 3).double()
    chosen = sorted(material.train, key=lambda one: len(one.source))[:: len(material.train) // 5][:6]
    assert len({len(one.source) for one in chosen}) > 2

    def loss(some):
        t = tensors(batch(some), "cpu")
        logits = module(t["source"], t["decoder_input"], t["source_lengths"], t["target_lengths"])
        return cross_entropy(logits, t["targets"], 0.1, lengths=t["target_lengths"], reduction="sum")

    together = loss(chosen)
    together.backward()
    grads = module.grads()
    module.zero_grad()
    alone = sum(loss([one]) for one in chosen)
    alone.backward()
    assert together.item() == pytest.approx(alone.item(), abs=1e-9)
    for name, value in module.grads().items():
        np.testing.assert_allclose(grads[name], value, atol=1e-9, err_msg=name)


def material_config(material):
    return tiny().model.config(len(material.source), len(material.target))


def test_a_later_target_leaves_earlier_logits_alone(material):
    module = Transformer(material_config(material), 3)
    one = next(one for one in material.train if len(one.target) > 5)
    changed = Example(one.source, [*one.target[:3], 5 if one.target[3] != 5 else 6, *one.target[4:]])
    logits = []
    for some in (one, changed):
        t = tensors(batch([some]), "cpu")
        logits.append(module(t["source"], t["decoder_input"], t["source_lengths"], t["target_lengths"])[0])
    assert torch.equal(logits[0][:4], logits[1][:4]) and not torch.equal(logits[0][4:], logits[1][4:])


def test_a_parameter_that_no_gradient_reaches_ends_the_run(tmp_path):
    class Cut(Transformer):
        def encode(self, *arguments):
            return super().encode(*arguments).detach()

    with pytest.raises(RuntimeError, match=r"source_embedding, encoder\.0\.self_attention\.w_q"):
        run(tiny(), tmp_path, make=Cut)


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path):
    class Broken(Transformer):
        def forward(self, *arguments):
            return super().forward(*arguments) * float("inf")

    with pytest.raises(FloatingPointError, match="loss of step 1 was nan"):
        run(tiny(), tmp_path, make=Broken)


def test_a_run_that_learns_nothing_fails(tmp_path):
    with pytest.raises(RuntimeError, match="nothing was learnt"):
        run(tiny(training__rate=1e-12, training__steps=5), tmp_path)


def test_patience_ends_a_run_whose_validation_does_not_improve(tmp_path):
    settings = tiny(training__steps=400, training__rate=30.0, training__checkpoint_every=5, training__patience=2)
    said = []
    try:
        result = run(settings, tmp_path, say=said.append)
        assert result.why == "no better" and result.step < 400
    except RuntimeError as error:  # at such a rate the loss may well lie above its start
        assert "nothing was learnt" in str(error) and said[-1].startswith("no better")


def test_training_lowers_the_loss_and_the_mean_of_checkpoints_is_the_model(steady):
    folder, result = steady
    assert result.why == "done" and result.log[-1]["loss"] < result.log[0]["loss"] - 0.5
    kept = [checkpoint.load(path).weights for path in checkpoint.found(folder / "checkpoints")]
    assert [path.name for path in checkpoint.found(folder / "checkpoints")] == ["step-00000005", "step-00000010"]
    model = Translator.load(folder / "model")
    for name, value in average(kept).items():
        np.testing.assert_array_equal(model.params[name], value.numpy())
    np.testing.assert_allclose(model.params["output.b"], (kept[0]["output.b"] + kept[1]["output.b"]).numpy() / 2, atol=1e-7)


def test_bf16_follows_float32(material):
    losses = []
    for precision in ("float32", "bf16"):
        one = run_of(tiny(training__precision=precision), material)
        losses.append([one._update(np.arange(20))["loss"] for _ in range(5)])
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, rtol=0.02)


@pytest.mark.slow
def test_a_compiled_step_gives_the_same_gradients(material):
    if not shutil.which("g++"):
        pytest.skip("torch.compile needs a C++ compiler")
    grads = []
    for compiled in (False, True):
        one = run_of(tiny(training__compile=compiled, training__clip=None), material)
        one._update(np.arange(20))
        grads.append(one.module.grads())
    for name, value in grads[0].items():
        np.testing.assert_allclose(grads[1][name], value, atol=1e-5, err_msg=name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_gpu_follows_the_processor(tmp_path, precision):
    settings = tiny(training__precision=precision, training__warmup=20, training__rate=0.05)
    logs = [train(settings, tmp_path / device, device=device, progress=False, say=lambda text: None).log for device in ("cpu", "cuda")]
    tolerance = 1e-4 if precision == "float32" else 0.02
    np.testing.assert_allclose(*([line["loss"] for line in log] for log in logs), rtol=tolerance)


# ---- going on ----


@pytest.mark.parametrize("k", [1, 4, 5, 9])
def test_interrupted_and_resumed_equals_uninterrupted(steady, tmp_path, k):
    folder, whole = steady
    assert run(tiny(), tmp_path, stop_after=k).why == "left off"
    torch.manual_seed(99)  # another process would not have the state of this one
    said = []
    result = run(tiny(), tmp_path, resume=True, say=said.append)
    assert "going on from" in said[0] and result.step == 10
    plain = [{name: line[name] for name in ("step", "loss", "rate", "norm", "tokens", "epoch")} for line in whole.log]
    assert [{name: line[name] for name in plain[0]} for line in result.log] == plain
    ours, theirs = (checkpoint.newest(path / "checkpoints") for path in (tmp_path, folder))
    assert same(ours.weights, theirs.weights)
    parts = [{name: value for name, value in one.optimizer.items() if not name.startswith("random")} for one in (ours, theirs)]
    assert same(*parts) and any(name.startswith("exp_avg_sq.") for name in parts[0]) and int(parts[0]["step.output.b"]) == 10


def test_the_random_state_comes_back(tmp_path):
    torch.manual_seed(5)
    run(tiny(), tmp_path, stop_after=5)
    wanted = torch.rand(3)
    torch.manual_seed(6)
    run(tiny(), tmp_path, resume=True, stop_after=5)
    assert torch.equal(torch.rand(3), wanted)


def test_a_run_is_neither_overwritten_nor_mixed(steady):
    folder = steady[0]
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="already holds a run"):
        run(tiny(), folder)
    with pytest.raises(ValueError, match="model.d_ff: 32, not 24"):
        run(tiny(model__d_ff=32), folder, resume=True)
    with pytest.raises(ValueError, match="training.warmup: 7, not 6"):
        run(tiny(training__warmup=7), folder, resume=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.fixture
def saved(steady, tmp_path):
    """A copy of the two checkpoints of the uninterrupted run."""
    shutil.copytree(steady[0] / "checkpoints", tmp_path / "checkpoints")
    return tmp_path / "checkpoints"


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "changed", "foreign"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_loads(saved, name, damage):
    path = saved / "step-00000010" / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": content[:-7], "changed": content.replace(b"e", b"f"), "foreign": b"\x80\x04pickle"}[damage])
    said = []
    found = checkpoint.newest(saved, said.append)
    assert found.step == 5 and len(said) == 1 and "step-00000010" in said[0]
    with pytest.raises(ValueError, match="step-00000010 is no complete checkpoint"):
        checkpoint.load(saved / "step-00000010")
    shutil.rmtree(saved / "step-00000005")
    with pytest.raises(ValueError, match="none of the 1 checkpoints"):
        checkpoint.newest(saved, said.append)


def test_a_pickle_is_never_executed(saved):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(saved / "executed"),)

    torch.save(Trap(), saved / "step-00000010" / "weights.safetensors")
    assert checkpoint.newest(saved, lambda text: None).step == 5
    assert not (saved / "executed").exists()


def test_leftovers_are_ignored_and_named_and_go_with_the_next_pruning(saved):
    (saved / ".saving-step-00000015-1").mkdir()
    said = []
    assert checkpoint.newest(saved, said.append).step == 10
    assert said == [f"ignored: {saved / '.saving-step-00000015-1'}, left over from a save that did not end"]
    checkpoint.prune(saved, 1)
    assert [path.name for path in saved.iterdir()] == ["step-00000010"]


def test_a_full_disk_leaves_what_was_there(saved):
    """The size of a file is limited, which the system reports as it does a full disk: as an error in the middle of writing."""
    last = checkpoint.newest(saved)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="step-00000011 could not be written"):
            checkpoint.save(saved, 11, last.weights, last.optimizer, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert sorted(path.name for path in saved.iterdir()) == ["step-00000005", "step-00000010"]
    assert same(checkpoint.newest(saved).weights, last.weights)


KILLED = """
import sys
from pathlib import Path
import torch
from translate import checkpoint
folder = Path(sys.argv[1])
for step in range(1, 10000):
    tensors = {f"w.{i}": torch.full((64, 64), float(step)) for i in range(20)}
    checkpoint.save(folder, step, tensors, tensors, {})
    checkpoint.prune(folder, 2)
    print(step, flush=True)
"""


def killed_while_saving(folder, moments):
    """Save on and on, killed at random moments; after each the newest complete checkpoint must load and be of one step."""
    steps = []
    for number in range(moments):
        place = folder / str(number)
        with subprocess.Popen([sys.executable, "-c", KILLED, str(place)], stdout=subprocess.PIPE, cwd=ROOT / "examples", text=True) as process:
            said = int(process.stdout.readline())  # it has saved once
            time.sleep(random.Random(number).uniform(0, 0.2))
            process.kill()
            rest = process.stdout.read().split()
            said = int(rest[-1]) if rest else said
        found = checkpoint.newest(place, lambda text: None)
        assert found.step in (said, said + 1)  # the one that was reported, or one that was whole and not yet reported
        for kept in (found.weights, found.optimizer):
            assert all((value == found.step).all() for value in kept.values())
        steps.append(found.step)
    return steps


def test_killed_while_saving(tmp_path):
    assert len(killed_while_saving(tmp_path, 2)) == 2


@pytest.mark.slow
def test_killed_while_saving_at_50_moments(tmp_path):
    assert len(set(killed_while_saving(tmp_path, 50))) > 5


# ---- settings and the command ----


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: s["model"].pop("d_ff"), "model lacked the key 'd_ff'"),
        (lambda s: s["training"].update(learning_rate=1), "training had the unknown key 'learning_rate'"),
        (lambda s: s.pop("data"), "settings lacked the key 'data'"),
        (lambda s: s.update(extra=1), "settings had the unknown key 'extra'"),
        (lambda s: s["data"].update(train={}), "data.train was {}"),
        (lambda s: s["data"]["train"].update(ordinal=3), "ordinal"),
        (lambda s: s["data"]["validation"].update(number=0), r"data.validation\['number'\] was 0"),
        (lambda s: s["training"].update(steps=0), "training.steps was 0"),
        (lambda s: s["training"].update(rate=float("nan")), "training.rate was nan"),
        (lambda s: s["training"].update(smoothing=1), "training.smoothing was 1"),
        (lambda s: s["training"].update(clip="1e-3"), "training.clip was '1e-3'"),
        (lambda s: s["training"].update(precision="fp8"), "training.precision was 'fp8'"),
        (lambda s: s["training"].update(compile="yes"), "training.compile was 'yes'"),
        (lambda s: s["training"].update(parallel="horovod"), "training.parallel was 'horovod'"),
        (lambda s: s["model"].update(n_heads=3), "model.d_model was 16"),
        (lambda s: s["model"].update(positions="rope"), "model.positions was 'rope'"),
        (lambda s: s["model"].update(d_model=16.0), "model.d_model was 16.0"),
        (lambda s: s["model"].update(seed=-1), "model.seed was -1"),
    ],
)
def test_settings_that_cannot_be_meant_are_named(change, message, tmp_path, capsys):
    settings = copy.deepcopy(TINY)
    change(settings)
    with pytest.raises(ValueError, match=message):
        from_dict(settings)
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(settings))
    assert main(["train", "--config", str(tmp_path / "wrong.yaml"), "--out", str(tmp_path / "run")]) == 1
    assert "wrong.yaml: " in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_the_committed_settings_are_read():
    assert load(SMALL).model.d_model == 128


def test_the_command_fails_where_it_must(tmp_path, capsys):
    (tmp_path / "list.yaml").write_text("- 1")
    (tmp_path / "no.yaml").write_text("a: [")
    for name, message in (("missing.yaml", "missing.yaml"), ("list.yaml", "settings was [1]"), ("no.yaml", "is not YAML")):
        assert main(["train", "--config", str(tmp_path / name), "--out", str(tmp_path / "run")]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["train", "--config", str(SMALL), "--out", "run", "--epochs", "3"])
    assert stop.value.code == 2 and "--epochs" in capsys.readouterr().err
    for device, message in (("tpu0", "knows no such device"), ("meta", "must be cpu or cuda")):
        assert main(["train", "--config", str(SMALL), "--out", str(tmp_path / "run"), "--device", device]) == 1
        assert message in capsys.readouterr().err
    assert main(["translate", "--model", str(tmp_path), "un"]) == 1
    assert "lacks weights.safetensors" in capsys.readouterr().err


def test_more_data_than_there_is_and_a_sentence_longer_than_the_positions_are_named(tmp_path):
    with pytest.raises(ValueError, match="80000 long dates were asked for"):
        run(tiny(data__train={"long date": 80_000}), tmp_path)
    with pytest.raises(ValueError, match="max_length allows 5"):
        run(tiny(model__max_length=5), tmp_path)


# ---- evaluation ----


def test_scores_of_shares_add_up_and_an_empty_share_counts_nothing(material):
    module = Transformer(material_config(material), 3)
    whole = score(module, material.validation)
    assert whole.sentences == len(material.validation) == 21
    for members in (2, 3, 30):
        parts = [score(module, material.validation[rank::members]) for rank in range(members)]
        assert sum(one.loss for one in parts) == pytest.approx(whole.loss, rel=1e-5)
        assert [sum(column) for column in zip(*parts, strict=True)][1:] == list(whole[1:])


def test_searching_in_a_batch_equals_sentence_by_sentence_and_numpy(steady):
    model = Translator.load(steady[0] / "model")
    module = Transformer(model.config).load_params(model.params)
    sentences = [one.source for one in pairs("validation", {"number": 4, "full date": 3})]
    sources = [model.source.encode(one) + [END] for one in sentences]
    for width in (1, 3):
        together = translations(module, sources, width)
        for sentence, source, found in zip(sentences, sources, together, strict=True):
            assert translations(module, [source], width)[0].tokens == found.tokens
            alone = model.translate(sentence, width)
            assert alone.hypotheses[0].tokens == found.tokens
            assert alone.hypotheses[0].score == pytest.approx(found.score, abs=1e-4)


def test_attention_is_shown_for_each_piece(steady):
    found = Translator.load(steady[0] / "model").translate("vingt et un", width=2)
    assert found.source_pieces[-1] == "<eos>" and "".join(found.source_pieces[:-1]) == "vingt et un"
    assert [layer.shape for layer in found.weights] == [(2, len(found.pieces), len(found.source_pieces))]
    np.testing.assert_allclose(found.weights[0].sum(-1), 1, atol=1e-5)


def test_a_model_that_is_none_is_named(steady, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(steady[0] / "model", folder)
    config = json.loads((folder / "config.json").read_text())
    for change, message in (({"d_ff": 25}, "feed_forward.w_1"), ({"depth": 3}, "depth"), ({"source_vocab": 9}, "source_embedding")):
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=message):
            Translator.load(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "weights.safetensors").write_bytes((folder / "weights.safetensors").read_bytes()[:-1])
    with pytest.raises(ValueError, match="holds no model"):
        Translator.load(folder)


def test_a_mean_of_nothing_or_of_different_models_is_refused():
    with pytest.raises(ValueError, match="empty"):
        average([])
    with pytest.raises(ValueError, match="different names"):
        average([{"a": torch.ones(1)}, {"b": torch.ones(1)}])
