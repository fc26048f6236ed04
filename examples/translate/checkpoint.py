"""Checkpoints: a folder each, complete or not there.

    checkpoints/step-00000250/weights.safetensors      every parameter, whole
                              optimizer.safetensors    Adam's step counts, m and v, and every process's random state
                              state.json               settings, step, what was logged, and the sums of the two files

A folder is written beside under another name, flushed to disk and renamed once. Nothing in it is executed when it is loaded.
"""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

FORMAT = 1
FILES = ("weights.safetensors", "optimizer.safetensors")
SAVING = ".saving-"


class Checkpoint(NamedTuple):
    path: Path
    step: int
    weights: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]
    state: dict


def save(folder: str | Path, step: int, weights: dict, optimizer: dict, state: dict) -> Path:
    """Write the checkpoint of a step, all of it or nothing.

    Raises OSError where it cannot be written (a full disk); what was there before is left as it was.
    """
    folder = Path(folder)
    target = folder / f"step-{step:08d}"
    beside = folder / f"{SAVING}{target.name}-{os.getpid()}"
    try:
        beside.mkdir(parents=True)
        for name, tensors in zip(FILES, (weights, optimizer), strict=True):
            save_file({key: value.contiguous() for key, value in tensors.items()}, beside / name)
            _flush(beside / name)
        sums = {name: _sum(beside / name) for name in FILES}
        with open(beside / "state.json", "w", encoding="utf-8") as file:
            json.dump(state | {"format": FORMAT, "step": step, "sums": sums}, file, indent=1)
        _flush(beside / "state.json")
        _flush(beside)
        if target.exists():  # the same step once more: a run that went on from an older checkpoint
            old = folder / f"{SAVING}old-{target.name}-{os.getpid()}"
            target.rename(old)
            beside.rename(target)
            shutil.rmtree(old)
        else:
            beside.rename(target)
        _flush(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise OSError(f"the checkpoint {target} could not be written: {error}") from error
    return target


def load(path: str | Path) -> Checkpoint:
    """Raises ValueError naming what is wrong: missing, truncated, altered, or not a checkpoint of this format."""
    path = Path(path)
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        if not isinstance(state, dict) or state.get("format") != FORMAT:
            raise ValueError(f"its format is {state.get('format') if isinstance(state, dict) else None!r}, not {FORMAT}")
        for name in FILES:
            if _sum(path / name) != state["sums"][name]:
                raise ValueError(f"{name} was cut short or changed since it was saved")
        weights, optimizer = (load_file(path / name) for name in FILES)
        return Checkpoint(path, int(state["step"]), weights, optimizer, state)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ValueError(f"{path} is no complete checkpoint: {type(error).__name__}: {error}") from error


def found(folder: str | Path) -> list[Path]:
    """The checkpoints in a folder, oldest first, by name alone."""
    return sorted(path for path in Path(folder).glob("step-*") if re.fullmatch(r"step-\d{8}", path.name))


def newest(folder: str | Path, say=print) -> Checkpoint | None:
    """The newest checkpoint that is whole; each one that is not, and each leftover of a broken save, is said. None where nothing was saved.

    Raises ValueError where checkpoints are there and none is whole.
    """
    for path in sorted(Path(folder).glob(f"{SAVING}*")):
        say(f"ignored: {path}, left over from a save that did not end")
    paths = found(folder)
    for path in reversed(paths):
        try:
            return load(path)
        except ValueError as error:
            say(f"ignored: {error}")
    if paths:
        raise ValueError(f"none of the {len(paths)} checkpoints in {folder} is whole; nothing was loaded")
    return None


def prune(folder: str | Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints, and the leftovers of broken saves."""
    for path in found(folder)[:-keep]:
        shutil.rmtree(path)
    for path in Path(folder).glob(f"{SAVING}*"):
        shutil.rmtree(path)


def _sum(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
