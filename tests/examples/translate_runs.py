"""A tiny training run, for the tests of examples/translate and for the processes that they start."""

import copy
from pathlib import Path

import torch
from translate.parallel import Team
from translate.settings import from_dict
from translate.train import Transformer, _Run, train

TINY = {
    "data": {
        "train": {"number": 60, "long date": 20, "full date": 21},
        "validation": {"number": 11, "long date": 5, "full date": 5},
        "seed": 1,
        "vocabulary": 256,
        "batch": 32,
    },
    "model": {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_layers": 1, "positions": "sinusoidal", "tied": True, "max_length": 24, "seed": 1},
    "training": {
        "steps": 10, "warmup": 6, "rate": 1.0, "smoothing": 0.1, "clip": 1.0, "microbatches": 1, "checkpoint_every": 5, "average": 2, "patience": None,
    },
}  # fmt: skip

# Fifty steps at a rate under which rounding does not grow into another run.
FIFTY = {"training__steps": 50, "training__checkpoint_every": 50, "data__batch": 21, "training__warmup": 20, "training__rate": 0.05}


def tiny(**changes):
    """The settings above, changed: training__steps=3."""
    settings = copy.deepcopy(TINY)
    for name, value in changes.items():
        part, key = name.split("__")
        settings[part][key] = value
    return from_dict(settings)


def run(settings, folder, **options):
    return train(settings, folder, device="cpu", progress=False, say=options.pop("say", lambda text: None), **options)


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def run_of(settings, material):
    """A run that has not begun, on one process and without files."""
    return _Run(settings, Path("unused"), Team(0, 1, torch.device("cpu")), material, Transformer, None, print)
