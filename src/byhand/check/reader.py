"""A reader's training step, run as it is: in this process on copies, or in one of its own; what it returns becomes plain arrays."""

import importlib.util
import inspect
import multiprocessing
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .copies import fresh

# What a step may return, and the names that others have for it.
PARTS = {
    "params": ("params", "parameters", "weights", "state_dict"),
    "gradients": ("gradients", "grads", "grad", "gradient"),
    "activations": ("activations", "stages", "acts"),
    "logits": ("logits", "scores", "output"),
    "loss": ("loss",),
    "params_1": ("params_1", "after_1", "updated"), "params_2": ("params_2", "after_2"), "params_3": ("params_3", "after_3"),
}  # fmt: skip
OPTIONAL = ("params", "config", "lengths", "source_lengths", "target_lengths")


class Unreadable(Exception):
    """What keeps the reader's code from being compared, in words."""


class Result(dict):
    """Arrays by part: "params", "gradients" and "activations" hold arrays by name, "logits" and "loss" are arrays. dtypes: of the floats seen."""

    dtypes: set[str]


class InProcess:
    """Calls the step here, on copies of what it is given, and, where it is an object that can be copied, on a copy of itself."""

    where = "in this process, on copies"

    def __init__(self, step: Any):
        step = step if callable(step) and not hasattr(step, "step") else getattr(step, "step", step)
        if not callable(step):
            raise ValueError(f"step was {type(step).__name__}; it must be a function of tokens, or an object with a method `step`")
        self.step = step
        self.wants = _wants(step)

    def __call__(self, arguments: list, optional: Mapping[str, Any]) -> Result:
        return plain(_called(self.step, arguments, optional))

    def close(self) -> None:
        pass


class OwnProcess:
    """The same in a process of its own, which is ended where an answer takes longer than `timeout` seconds."""

    def __init__(self, path: str, name: str, timeout: float):
        if not Path(path).is_file():
            raise Unreadable(f"there is no file {path!r}; a step is named as file.py:name")
        self.path, self.name, self.timeout = str(Path(path).resolve()), name, timeout
        self.where, self.process = f"in a process of its own, {timeout:g} s for each call", None
        self.wants = self._start()

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, self.path, self.name), daemon=True)
        self.process.start()
        other.close()
        return self._answer("while it was read")

    def __call__(self, arguments: list, optional: Mapping[str, Any]) -> Result:
        if self.process is None:
            self._start()
        self.pipe.send((arguments, dict(optional)))
        parts, dtypes = self._answer("with the tokens that it was given")
        result = Result(parts)
        result.dtypes = dtypes
        return result

    def _answer(self, when):
        try:
            if not self.pipe.poll(self.timeout):
                self.close()
                raise Unreadable(f"it had not returned after {self.timeout:g} s, {when}: an endless loop, or too slow for a check")
            kind, value = self.pipe.recv()
        except EOFError:
            self.close()
            raise Unreadable(f"its process ended without an answer, {when}: sys.exit, or a crash") from None
        if kind == "error":
            raise Unreadable(value)
        return value

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def _serve(pipe, path, name):
    """The other end: reads the file, then answers each call with plain arrays."""
    sys.path.insert(0, str(Path(path).parent))
    try:
        spec = importlib.util.spec_from_file_location(Path(path).stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        if not hasattr(module, name):
            raise Unreadable(f"{Path(path).name} has no {name!r}; it has {', '.join(n for n in vars(module) if not n.startswith('_')) or 'nothing'}")
        step = InProcess(getattr(module, name))
        pipe.send(("value", step.wants))
    except BaseException as error:  # whatever the file does is told
        return pipe.send(("error", in_words(error, path)))
    while True:
        try:
            arguments, optional = pipe.recv()
        except EOFError:
            return None
        try:
            result = step(arguments, optional)
            pipe.send(("value", (dict(result), result.dtypes)))
        except BaseException as error:
            pipe.send(("error", in_words(error, path)))


def _wants(step):
    """How many token arrays it takes (2: a decoder stack's, 3: an encoder-decoder's), and which other arguments by name."""
    try:
        parameters = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):
        return 2, ()
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    tokens = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in OPTIONAL and p.default is p.empty]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2, ()
    if len(tokens) not in (2, 3):
        raise Unreadable(
            f"it takes {len(tokens)} arrays of tokens ({', '.join(tokens) or 'none'}); it must take (tokens, targets), or (source, decoder_input, targets), "
            f"and may take {', '.join(OPTIONAL)} by these names"
        )
    return len(tokens), tuple(name for name in named if name in OPTIONAL)


def _called(step, arguments, optional):
    given = fresh(arguments)
    handed = fresh(dict(optional))
    with np.errstate(all="ignore"):
        try:
            step = fresh(step) if not inspect.isfunction(step) else step  # an object keeps its parameters: each call begins from the same ones
        except ValueError:
            pass
        returned = step(*given, **handed)
    for mine, right in zip(given, arguments):
        if not np.array_equal(mine, right):
            raise Unreadable("it changes the tokens that it is given, in place; others read them too")
    for name, value in optional.items():
        if isinstance(value, dict) and any(not np.array_equal(handed[name][key], array) for key, array in value.items()):
            raise Unreadable(f"it changes the {name} that it is given, in place: what it returns as params are then no longer those of the forward pass")
    return returned


def plain(returned: Any) -> Result:
    """What a step returned, as NumPy arrays under the parts' own names. Raises Unreadable for what is none of these."""
    if hasattr(returned, "named_parameters"):
        returned = {"params": returned}
    if hasattr(returned, "_asdict"):
        returned = returned._asdict()
    if not isinstance(returned, Mapping):
        was = "nothing" if returned is None else type(returned).__name__
        raise Unreadable(f"it returned {was}; it must return a dict with some of {', '.join(PARTS)}")
    result, dtypes = Result(), set()
    for part, synonyms in PARTS.items():
        for name in (name for name in synonyms if name in returned):
            value = returned[name]
            if hasattr(value, "named_parameters"):
                grads = {n: p.grad for n, p in value.named_parameters() if p.grad is not None}
                if part == "params" and grads and not any(s in returned for s in PARTS["gradients"]):
                    result["gradients"] = {n: _array(n, g, dtypes) for n, g in grads.items()}
                value = dict(value.named_parameters())
            flat = {n: _array(f"{part} {n}".strip(), array, dtypes) for n, array in _flat(value)}
            result[part] = flat[""] if set(flat) == {""} else flat
    unknown = [str(name) for name in returned if not any(name in synonyms for synonyms in PARTS.values())]
    if not result:
        raise Unreadable(f"it returned {', '.join(unknown) or 'an empty dict'}; it must return some of {', '.join(PARTS)}")
    for part in ("logits", "loss"):
        if part in result and isinstance(result[part], dict):
            raise Unreadable(f"{part} held {len(result[part])} arrays; it must be one")
    for part in PARTS:
        if part not in ("logits", "loss") and part in result and not isinstance(result[part], dict):
            raise Unreadable(f"{part} was one array; it must be arrays by name (a dict, or lists and dicts of them)")
    result.dtypes = dtypes
    return result


def _flat(value, name=""):
    """(dotted name, array) of every array in dicts, lists and objects' attributes."""
    if value is None:
        return
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)) and any(np.ndim(part) or isinstance(part, Mapping) or hasattr(part, "__dict__") for part in value):
        items = enumerate(value)
    elif hasattr(value, "__dict__") and not hasattr(value, "__array__") and not hasattr(value, "shape"):
        items = vars(value).items()
    else:
        yield name, value
        return
    for key, part in items:
        if not callable(part) and not isinstance(part, str):
            yield from _flat(part, f"{name}.{key}" if name else str(key))


def _array(name, value, dtypes):
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.numpy() if value.dtype.is_floating_point and value.dtype.itemsize > 2 else value.double().numpy()
    try:
        array = np.array(value)  # a plain array, and a copy
        if array.dtype.kind == "f":
            dtypes.add(array.dtype.name)
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise Unreadable(f"{name} was {type(value).__name__}, which is no array of numbers") from None


def in_words(error: BaseException, path: str | Callable) -> str:
    """The exception, and the line of the reader's own file where it arose."""
    if isinstance(error, Unreadable):
        return str(error)
    own = path if isinstance(path, str) else getattr(inspect.unwrap(path), "__code__", None) and path.__code__.co_filename
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    where = f", line {lines[-1].lineno}, `{lines[-1].line}`" if lines and lines[-1].line else ""
    words = str(error).strip().partition("\n")[0][:300]
    return f"it raised {type(error).__name__}{where}" + (f": {words}" if words else "")
