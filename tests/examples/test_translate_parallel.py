"""Two processes under torchrun, over gloo, against one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from translate import checkpoint, parallel
from translate.train import corpus
from translate_runs import FIFTY, run, run_of, same, tiny

HERE = Path(__file__).resolve().parent


def torchrun(parts, folder, processes=2):
    """The output of these parts of two_processes.py, one after another, and the exit code."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", str(HERE / "two_processes.py")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([*command, str(folder), *parts], capture_output=True, text=True, timeout=2400, env=environment)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def runs(folder):
    run(tiny(), folder / "on one", stop_after=5)
    done = torchrun(["steps", "runs"], folder)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return folder


@pytest.fixture(scope="module")
def steps(runs):
    return json.loads((runs / "steps.json").read_text()), torch.load(runs / "steps.pt")


CASES = {"whole": (1, range(21), True), "pieces": (3, range(20), True), "one": (1, [4], True), "untied": (1, range(7), False)}


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
@pytest.mark.parametrize("case", CASES)
def test_gradient_norm_and_update_of_two_processes_are_those_of_one(steps, how, case):
    """Odd shares, microbatches of unequal size, a batch that leaves one process without a sentence; clipped."""
    found, tensors = steps
    microbatches, places, tied = CASES[case]
    settings = tiny(training__microbatches=microbatches, model__tied=tied, training__clip=0.5)
    one = run_of(settings, corpus(settings))
    assert (one.config.source_vocab, one.config.target_vocab) != (0, 0) and one.config.source_vocab % 2 + one.config.target_vocab % 2
    before = one.module.params()
    line = one._update(np.array(places))
    moved = {name: value - before[name] for name, value in one.module.params().items()}
    assert found[f"{how} {case}"]["loss"] == pytest.approx(line["loss"], abs=1e-6)
    assert found[f"{how} {case}"]["norm"] == pytest.approx(line["norm"], rel=1e-5)
    assert found["equal"][f"{how} {case}"]  # the same bits on both processes
    for name, value in one.module.grads().items():  # after clipping
        np.testing.assert_allclose(tensors[f"{how} {case} {name}"], value, atol=1e-6, err_msg=name)
        moved_there = tensors[f"{how} {case} moved {name}"].numpy()
        assert np.abs(moved_there).max() > 0, name
        large = np.abs(value) > 1e-5  # Adam's first step is the rate times the sign, which rounding decides where the gradient is 0
        np.testing.assert_allclose(moved_there[large], moved[name][large], atol=1e-5, err_msg=name)


def test_fifty_steps_of_two_processes_are_those_of_one(runs, tmp_path):
    one = run(tiny(**FIFTY), tmp_path)
    wanted = checkpoint.newest(tmp_path / "checkpoints")
    logs = {how: [json.loads(line) for line in (runs / how / "log.jsonl").read_text().splitlines()] for how in ("ddp", "fsdp")}
    weights = {how: checkpoint.newest(runs / how / "checkpoints").weights for how in ("ddp", "fsdp")}
    for how in ("ddp", "fsdp"):
        np.testing.assert_allclose([line["loss"] for line in logs[how]], [line["loss"] for line in one.log], atol=1e-5)
        # each of the 21 validation sentences once
        for name, value in one.log[-1]["validation"].items():
            assert logs[how][-1]["validation"][name] == pytest.approx(value, abs=1e-4)
    assert weights["ddp"].keys() == weights["fsdp"].keys() == wanted.weights.keys()
    for name, value in weights["ddp"].items():
        torch.testing.assert_close(weights["fsdp"][name], value, atol=1e-5, rtol=0)


def test_begun_on_two_and_ended_on_one_and_the_reverse(runs, tmp_path):
    two = checkpoint.newest(runs / "on two" / "checkpoints")
    assert two.state["world"] == 2 and {"random.0", "random.1"} <= two.optimizer.keys()
    one = run(tiny(), tmp_path)
    ended = run(tiny(), runs / "on two", resume=True)
    for result in (ended.log, [json.loads(line) for line in (runs / "on one" / "log.jsonl").read_text().splitlines()]):
        np.testing.assert_allclose([line["loss"] for line in result], [line["loss"] for line in one.log], atol=1e-5)
    both = checkpoint.load(runs / "on one" / "checkpoints" / "step-00000010")
    assert both.state["world"] == 2
    for name, value in checkpoint.newest(tmp_path / "checkpoints").weights.items():
        torch.testing.assert_close(both.weights[name], value, atol=1e-5, rtol=0)
    assert json.loads((runs / "said.json").read_text())[0].startswith("going on from")


def test_what_is_restored_is_what_was_saved_bit_for_bit(runs, tmp_path):
    """Resumed and left off at once: the checkpoint of two processes, written again by one."""
    before = checkpoint.load(runs / "on two" / "checkpoints" / "step-00000005")
    settings = tiny()
    one = run_of(settings, corpus(settings))
    one._restore(before)
    assert same(parallel.weights(one.module), before.weights)
    moments = parallel.moments(one.module, one.optimizer)
    assert same(moments, {name: value for name, value in before.optimizer.items() if not name.startswith("random")})
    again = checkpoint.save(tmp_path, 5, parallel.weights(one.module), before.optimizer, before.state)
    for name in checkpoint.FILES:  # the same bytes, whoever saved
        assert (again / name).read_bytes() == (before.path / name).read_bytes()


@pytest.mark.slow
def test_a_worker_that_raises_ends_all_and_its_message_is_there(folder):
    done = torchrun(["dies"], folder)
    assert done.returncode != 0
    assert "this worker has had enough" in done.stderr


def test_a_worker_that_is_killed_ends_all_and_the_run_goes_on(folder, tmp_path):
    done = torchrun(["killed"], folder)
    assert done.returncode != 0 and "SIGKILL" in done.stderr
    said = []
    result = run(tiny(), folder / "killed", resume=True, say=said.append)
    whole = run(tiny(), tmp_path)
    assert "step-00000005" in said[0] and result.step == 10
    np.testing.assert_allclose([line["loss"] for line in result.log], [line["loss"] for line in whole.log], atol=1e-5)


@pytest.mark.slow
def test_two_runs_side_by_side_and_many_in_a_row(tmp_path):
    import concurrent.futures

    for number in range(20):
        (tmp_path / str(number)).mkdir()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda number: torchrun(["steps"], tmp_path / str(number)), range(20)):
            assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr
