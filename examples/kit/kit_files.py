"""Reading the kit's files, and comparing with them what an implementation has computed. Needs NumPy, and nothing of the book's package."""

import json
import sys
from pathlib import Path

import numpy as np

DTYPES = {"F64": np.float64, "I64": np.int64}


def read(path):
    """(what stands under "kit", the arrays by name) of a .json, .npz or .safetensors file."""
    path = Path(path)
    if path.suffix == ".json":
        content = json.loads(path.read_text("utf-8"))
        return content["kit"], {name: np.array(value) for name, value in content["arrays"].items()}
    if path.suffix == ".npz":
        arrays = dict(np.load(path))
        return json.loads(arrays.pop("kit").item()), arrays
    content = path.read_bytes()  # safetensors: the header's length in eight bytes, the header as JSON, and the arrays
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    about, arrays = json.loads(header.pop("__metadata__")["kit"]), {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(content[start + first : start + end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return about, arrays


def compared(mine, theirs, bound, floor):
    """(holds, place): max|mine − theirs| ≤ bound · max(max|mine|, max|theirs|, floor)

    place: where they are furthest apart. holds is None, too small to tell, where the
    floor alone would let them pass.
    """
    if mine.shape != theirs.shape:
        return False, None
    same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
    gap = np.where(same, 0.0, np.abs(mine - theirs))
    gap = np.where(np.isnan(gap), np.inf, gap)
    place = np.unravel_index(gap.argmax(), gap.shape)
    size = max(np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in (mine, theirs))
    if not gap[place] <= bound * max(size, floor):
        return False, place
    return (True if gap[place] <= bound * size else None), place


def verdict(about, theirs, mine):
    """(whether it passes, in words): the first stage of the file, in the order of computing, that is not what was computed."""
    agree = small = 0
    for name in about["order"]:
        if name not in mine:
            return False, f"{name} was not computed"
        holds, place = compared(np.asarray(mine[name], dtype=float), theirs[name], about["bound"], about["floor"])
        if holds is False:
            if place is None:
                return False, f"the first wrong stage is {name}: shape {theirs[name].shape} in the file, {mine[name].shape} computed"
            where = ", ".join(map(str, place))
            return False, f"the first wrong stage is {name}: {theirs[name][place]:.6g} at ({where}) in the file, {mine[name][place]:.6g} computed"
        agree, small = agree + (holds is True), small + (holds is None)
    return agree > 0, f"{'passes' if agree else 'no verdict'}: {agree} stages agree, {small} are too small to tell"


def refuse_others(config, **has):
    """Stop where the configuration makes a choice that an implementation does not have."""
    for name, values in has.items():
        if name in config and config[name] not in values:
            sys.exit(f"this runner has no {name} {config[name]!r}; it has {', '.join(map(repr, values))}")


def held(step, path, computed):
    """The verdict on one file of what step(about, given) returns by name; `computed` keeps that for each right file.

    A broken file stands for the right one that it names, with its arrays exchanged.
    """
    about, arrays = read(path)
    whole = path.parent / about.get("right", path.name)
    if whole not in computed:
        about, right = read(whole)
        given = {name: array for name, array in right.items() if name not in about["order"]}
        computed[whole] = about, right, step(about, given)
    about, right, mine = computed[whole]
    return verdict(about, right | arrays, mine)


def main(step, paths):
    """Hold an implementation against each file; the exit code is 0 where all pass."""
    computed, all_pass = {}, True
    for path in map(Path, paths):
        passes, words = held(step, path, computed)
        print(f"{path.name}: {words}")
        all_pass &= passes
    sys.exit(not (paths and all_pass))
