"""What a public function looks at before it computes, and a model once for all the functions inside it.

A function stands twice under one name: `linear(x, w)` looks at its arguments and then applies the rule, and `linear.rule` is the rule alone.
A room that is built of others takes their rules, `linear, softmax = plain(linear, softmax)`, since it has looked at what it hands them.
"""

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, jaxtyped

from .record import Record

SCALARS = {
    int: ("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    float: ("a finite number", lambda value: isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)),
    bool: ("True or False", lambda value: isinstance(value, bool)),
    str: ("a string", lambda value: isinstance(value, str)),
}

WORDS = {Callable: "a function", dict: "a dict of arrays", Mapping: "a dict", tuple: "a tuple", Sequence: "a list", Iterable: "a list"}


def checked(check: Callable | None = None, *, floats: Callable, stages: Callable | None = None) -> Callable:
    """Makes a rule public: its arguments must be what its annotations say. Raises ValueError naming the first that is not.

    floats(**arrays) looks at all arrays of floating-point numbers, together. check gets the arguments that it names and looks at the rest:
    shapes that must fit and ranges. Without one the shapes must be the annotations', a name standing for one size throughout.
    stages: the rule takes a record, and stages(**kept) looks at what it computed on the way.
    """
    looked_at = inspect.signature(check).parameters if check else {}

    def decorate(rule):
        signature = inspect.signature(rule)
        names, kinds = list(signature.parameters), {name: _alternatives(p.annotation) for name, p in signature.parameters.items()}
        several = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in signature.parameters.values())
        defaults = {name: p.default for name, p in signature.parameters.items() if p.default is not p.empty}
        # an array of whole numbers or booleans is the check's, which may take a list for it
        of_floats = [name for name in names if _is_floats(kinds[name][0])]
        looks = {name: _look(kinds[name]) for name in names if name not in of_floats and not (_is_array(kinds[name][0]) and name in looked_at)}
        looks = {name: look for name, look in looks.items() if look}

        @wraps(rule)
        def door(*args, **kwargs):
            arguments = {**defaults, **dict(zip(names, args)), **kwargs}
            if several or arguments.keys() != kinds.keys() or len(args) > len(names):
                given = signature.bind(*args, **kwargs)  # says what is missing or unknown
                given.apply_defaults()
                arguments = given.arguments
            for name, look in looks.items():
                look(name, arguments[name])
            floats(**{name: arguments[name] for name in of_floats if arguments[name] is not None or types.NoneType not in kinds[name]})
            if check:
                check(**{name: arguments[name] for name in looked_at})
            else:
                _check_shapes(arguments, kinds)
            if not stages:
                return rule(*args, **kwargs)
            record = arguments["record"] if arguments["record"].on else Record()
            result = rule(**arguments | {"record": record})
            stages(**record.kept)
            return result

        door.rule = rule
        return door

    return decorate


def plain(*functions: Callable) -> tuple[Callable, ...]:
    """The rules of these functions, without their looks."""
    return tuple(getattr(function, "rule", function) for function in functions)


def whole(name: str, value: Any, least: int = 1) -> None:
    """Raise ValueError unless value is a whole number of at least this."""
    if not SCALARS[int][1](value) or value < least:
        raise ValueError(f"{name} was {value!r}; it must be a whole number of at least {least}")


def _is_array(kind):
    return hasattr(kind, "array_type")


def _alternatives(annotation):
    """What an argument may be; Any where the annotation does not say, and np.ndarray where only the check can tell."""
    if annotation is inspect.Parameter.empty:
        return (Any,)
    return typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)


def _is_floats(kind):
    return getattr(kind, "dtype", None) is Float


def _look(kinds):
    """The look at an argument that must be of one of these kinds; None where any will do."""
    optional, kinds = types.NoneType in kinds, [kind for kind in kinds if kind is not types.NoneType]
    kind = kinds[0]
    if kind in (Any, np.ndarray):
        return None
    if _is_array(kind):
        look = _look_at_array(kind)
    elif kind in SCALARS:
        words, fits = SCALARS[kind]
        look = _look_at(fits, "was {value!r}", words, optional)
    else:
        origins = tuple(typing.get_origin(kind) or kind for kind in kinds)
        words = " or ".join(WORDS.get(origin) or f"a {origin.__name__}".replace("a A", "an A") for origin in origins)
        look = _look_at(lambda value: isinstance(value, origins), "was {type}", words, optional)
    return (lambda name, value: None if value is None else look(name, value)) if optional else look


def _look_at(fits, was, words, optional):
    def look(name, value):
        if not fits(value):
            raise ValueError(f"{name} {was.format(value=value, type=type(value).__name__)}; it must be {'None or ' * optional}{words}")

    return look


def _look_at_array(kind):
    library = "NumPy array" if kind.array_type.__module__ == "numpy" else "tensor"
    words, any_shape = "booleans" if kind.dtype is Bool else "whole numbers", kind.dtype[kind.array_type, "..."]

    def look(name, value):
        if not isinstance(value, kind.array_type):
            raise ValueError(f"{name} was {type(value).__name__}; it must be a {library}")
        if not isinstance(value, any_shape):
            raise ValueError(f"{name} had dtype {value.dtype}; it must be a {library} of {words}")

    return look


def _check_shapes(arguments, kinds):
    with jaxtyped("context"):
        for name, value in arguments.items():
            shapes = [kind for kind in kinds[name] if _is_array(kind)]
            if shapes and value is not None and not any(isinstance(value, kind) for kind in shapes):
                must = " or ".join(f"({kind.dim_str.replace(' ', ', ')})" for kind in shapes)
                raise ValueError(f"{name} had shape {tuple(value.shape)}; it must be {must}, where each name is one size in all arguments")
