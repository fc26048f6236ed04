"""What two processes do, run by torchrun from test_translate_parallel.py with a folder and the names of parts. Rank 0 writes there what it saw."""

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "examples"), str(Path(__file__).resolve().parent)]

from translate import parallel  # noqa: E402
from translate.train import Transformer, _Run, corpus, train, train_with  # noqa: E402
from translate_runs import FIFTY  # noqa: E402
from translate_runs import tiny as settings  # noqa: E402


def gradients(how, microbatches, places, tied=True):
    """The whole gradient of one batch after an update, the logged loss and norm, and whether all processes have the same weights."""
    one = settings(training__parallel=how, training__microbatches=microbatches, model__tied=tied, training__clip=0.5)
    run = _Run(one, Path("unused"), TEAM, corpus(one), odd_transformer, None, print)
    before = parallel.weights(run.module)
    line = run._update(np.array(places))
    after = parallel.weights(run.module)
    grads = {name: parallel.whole(p.grad).clone() for name, p in run.module.named_parameters()}
    return grads, line, {name: after[name] - before[name] for name in after}


def odd_transformer(config, seed):
    """A vocabulary of odd size, so that the shares of its table are not alike."""
    assert config.source_vocab % 2 or config.target_vocab % 2
    return Transformer(config, seed)


def equal_everywhere(tensors):
    """Whether every process has the same bits."""
    flat = torch.cat([value.flatten() for value in tensors.values()])
    return all(torch.equal(part, flat) for part in TEAM.gather(flat))


def steps(folder):
    """Gradients, norms, updates; 50 steps with each way; saved and resumed."""
    found = {"equal": {}}
    tensors = {}
    for how in ("ddp", "fsdp"):
        for name, (microbatches, places, tied) in {
            "whole": (1, range(21), True), "pieces": (3, range(20), True), "one": (1, [4], True), "untied": (1, range(7), False),
        }.items():  # fmt: skip
            grads, line, moved = gradients(how, microbatches, places, tied)
            found[f"{how} {name}"] = line
            found["equal"][f"{how} {name}"] = equal_everywhere(grads) and equal_everywhere(moved)
            if TEAM.rank == 0:
                tensors |= {f"{how} {name} {parameter}": value for parameter, value in grads.items()}
                tensors |= {f"{how} {name} moved {parameter}": value for parameter, value in moved.items()}
    if TEAM.rank == 0:
        torch.save(tensors, folder / "steps.pt")
        (folder / "steps.json").write_text(json.dumps(found))


def runs(folder):
    """50 steps with each way; a run that goes on, on one process, and one that began there."""
    said = []

    def go(settings, name, **options):
        train_with(TEAM, settings, folder / name, progress=False, say=said.append, **options)

    for how in ("ddp", "fsdp"):
        go(settings(training__parallel=how, **FIFTY), how)
    go(settings(), "on two", stop_after=5)
    said.clear()
    go(settings(training__parallel="fsdp"), "on one", resume=True)
    if TEAM.rank == 0:
        (folder / "said.json").write_text(json.dumps(said))


def dies(folder):
    """The process of rank 1 raises in the third step."""

    class Dies(Transformer):
        calls = 0

        def forward(self, *arguments):
            Dies.calls += 1
            if Dies.calls == 3 and TEAM_RANK == 1:
                raise ValueError("this worker has had enough")
            return super().forward(*arguments)

    train(settings(), folder / "dies", device="cpu", progress=False, say=lambda text: None, make=Dies)


def killed(folder):
    """The process of rank 1 kills itself after the first checkpoint."""

    class Killed(Transformer):
        calls = 0

        def forward(self, *arguments):
            Killed.calls += 1
            if Killed.calls == 9 and TEAM_RANK == 1:
                os.kill(os.getpid(), 9)
            return super().forward(*arguments)

    train(settings(), folder / "killed", device="cpu", progress=False, say=lambda text: None, make=Killed)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("error", ResourceWarning)
    TEAM_RANK = int(os.environ["RANK"])
    folder, *parts = Path(sys.argv[1]), *sys.argv[2:]
    if parts in (["dies"], ["killed"]):
        {"dies": dies, "killed": killed}[parts[0]](folder)
    else:
        with parallel.team("cpu") as TEAM:
            for part in parts:
                {"steps": steps, "runs": runs}[part](folder)
    assert not dist.is_initialized()
