"""A mistake as a change to lines of the package's own source, and the package computing with it for a while."""

import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from types import ModuleType


@dataclass(frozen=True)
class Change:
    """`right`, which stands once in the source of `where`, a function or a module's functions, becomes `wrong`."""

    where: Callable | ModuleType
    right: str
    wrong: str

    @property
    def function(self) -> Callable:
        """The function that has the line. Raises ValueError unless exactly one has it, once."""
        functions = [self.where] if inspect.isfunction(self.where) else _functions_of(self.where)
        found = [function for function in functions if self.right in _source(function)]
        if len(found) != 1 or _source(found[0]).count(self.right) != 1:
            raise ValueError(f"{self.where.__name__} has {len(found)} functions with {self.right!r}; one must have it, and once, for it to be changed")
        return found[0]


@dataclass(frozen=True)
class Mistake:
    """One mistake: its name, why one comes to make it, and the lines that it changes.

    kind  "backward", "loss" (∂L/∂z), "optimizer", or "forward", where the backward is wrong in the same way and so agrees with it
    part  "step", where a training step of the encoder-decoder shows it, "stack", where only one of a decoder stack does; or what stands around the step
          and shows it: a key of PARTS in book/_tools/ledger/parts.py
    page  where the right line is derived, under book/, without the ending
    """

    name: str
    why: str
    changes: tuple[Change, ...]
    kind: str = "backward"
    part: str = "step"
    page: str = ""

    @contextmanager
    def planted(self, only: Collection[int] | None = None) -> Iterator[itertools.count]:
        """While the block runs, every module of byhand.numpy uses the changed functions; with `only`, at their calls of these numbers alone

        Yields a counter of the calls where `only` is given. Raises ValueError where a line to be changed is not in the source, or more than once.
        """
        wrong, calls = _wrong(self.changes), itertools.count()
        if only is not None:
            wrong = {function: _at_some_calls(function, mistaken, only, calls) for function, mistaken in wrong.items()}
            for function, chosen in wrong.items():
                if hasattr(function, "rule"):  # a room may ask for the rule behind the door
                    chosen.rule = wrong[function.rule]
        undo = []
        try:
            places = _places(len(sys.modules))
            for names, name in (place for function in wrong for place in places.get(function, ())):
                if _has(value := names[name], wrong):
                    undo.append((names, name, value))
                    names[name] = _exchanged(value, wrong)
            yield calls
        finally:
            for names, name, value in undo:
                names[name] = value

    def diff(self) -> str:
        """The changes as lines with − and +, under the function's name."""
        lines = []
        for change in self.changes:
            heading = f"{change.function.__module__.removeprefix('byhand.')}.{change.function.__name__}"
            if heading not in lines:
                lines.append(heading)
            lines += [f"− {line}" for line in whole_lines(change)] + [f"+ {line}" for line in whole_lines(change, wrong=True)]
        return "\n".join(lines)

    def right_lines(self) -> list[str]:
        """The lines as they should be."""
        return list(dict.fromkeys(line for change in self.changes for line in whole_lines(change)))


def whole_lines(change: Change, wrong: bool = False) -> list[str]:
    """The lines in which the change stands."""
    source = _source(change.function)
    start = source.rindex("\n", 0, source.index(change.right)) + 1
    end = source.find("\n", source.index(change.right) + len(change.right.rstrip("\n")))
    text = source[start:end]
    return [line.strip() for line in (text.replace(change.right.rstrip("\n"), change.wrong.rstrip("\n")) if wrong else text).splitlines()]


@cache
def _wrong(changes):
    """Each changed function to what stands in for it."""
    sources = {}
    for change in changes:
        function = change.function
        source = sources.get(function, _source(function))
        if change.right not in source:
            raise ValueError(f"{function.__name__} has {change.right!r} no longer: another of the changes has taken the line")
        sources[function] = source.replace(change.right, change.wrong)
    wrong = {function: _compiled(function, source) for function, source in sources.items()}
    return wrong | {function.rule: mistaken.rule for function, mistaken in wrong.items() if hasattr(function, "rule")}


@cache
def _places(loaded):
    """Where each function has a name: in a module, or in one of its tables, such as ACTIVATIONS; once for each number of modules loaded."""
    places = {}
    for module in [module for name, module in sys.modules.items() if name.startswith("byhand.numpy")]:
        tables = [value for name, value in vars(module).items() if isinstance(value, dict) and not name.startswith("__")]
        for names in (vars(module), *tables):
            for name, value in names.items():
                for function in _functions_in(value):
                    places.setdefault(function, []).append((names, name))
    return places


def _functions_in(value):
    if type(value) is tuple:
        return {function for part in value for function in _functions_in(part)}
    return {value} if inspect.isfunction(value) else set()


def _at_some_calls(right, mistaken, numbers, calls):
    @wraps(right)
    def chosen(*args, **kwargs):
        return (mistaken if next(calls) in numbers else right)(*args, **kwargs)

    return chosen


def _has(value, wrong):
    return not _functions_in(value).isdisjoint(wrong)


def _exchanged(value, wrong):
    return tuple(_exchanged(part, wrong) for part in value) if type(value) is tuple else wrong.get(value, value)


def _functions_of(module):
    return [value for value in vars(module).values() if inspect.isfunction(value) and value.__module__ == module.__name__]


@cache
def _source(function):
    return textwrap.dedent(inspect.getsource(function))


def _compiled(function, source):
    found = {}
    exec(compile(source, f"<mistaken {function.__qualname__}>", "exec"), inspect.unwrap(function).__globals__, found)
    return found[function.__name__]
