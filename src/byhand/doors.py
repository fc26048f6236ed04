"""What a public function looks at before it computes, and a model once for all the functions inside it.

A function stands twice under one name: `linear(x, w)` looks at its arguments and then applies the rule, and `linear.rule` is the rule alone.
A room that is built of others takes their rules, `linear, softmax = plain(linear, softmax)`, since it has looked at what it hands them.
"""

import inspect
import math
import types
import typing
from collections.abc import Callable, Sequence
from functools import wraps
from numbers import Integral, Real
from typing import Any

from jaxtyping import Bool, Float, jaxtyped

from .record import Record

SCALARS = {
    int: ("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    float: ("a finite number", lambda value: isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)),
    bool: ("True or False", lambda value: isinstance(value, bool)),
    str: ("a string", lambda value: isinstance(value, str)),
}

WORDS = {Callable: "a function", dict: "a dict of arrays", tuple: "a tuple", Sequence: "a list"}


def checked(check: Callable | None = None, *, floats: Callable, stages: Callable | None = None) -> Callable:
    """Makes a rule public: its arguments must be what its annotations say. Raises ValueError naming the first that is not.

    floats(**arrays) looks at all arrays of floating-point numbers, together. check gets the arguments that it names and looks at the rest:
    shapes that must fit and ranges. Without one the shapes must be the annotations', a name standing for one size throughout.
    stages: the rule takes a record, and stages(**kept) looks at what it computed on the way.
    """
    looked_at = inspect.signature(check).parameters if check else {}

    def decorate(rule):
        signature = inspect.signature(rule)
        kinds = {name: _alternatives(parameter.annotation) for name, parameter in signature.parameters.items()}

        @wraps(rule)
        def door(*args, **kwargs):
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            arguments = given.arguments
            arrays = {}
            for name, value in arguments.items():
                kind = kinds[name][0]
                if kind is Any or (value is None and types.NoneType in kinds[name]):
                    continue
                if getattr(kind, "dtype", None) is Float:
                    arrays[name] = value
                elif not (_is_array(kind) and name in looked_at):  # an array of another kind is the check's, which may take a list for it
                    _check_kind(name, value, kinds[name])
            floats(**arrays)
            if check:
                check(**{name: arguments[name] for name in looked_at})
            else:
                _check_shapes(arguments, kinds)
            if not stages:
                return rule(*args, **kwargs)
            arguments["record"] = arguments["record"] if arguments["record"].on else Record()
            result = rule(*given.args, **given.kwargs)
            stages(**arguments["record"].kept)
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
    """What an argument may be; Any where the annotation does not say."""
    if annotation is inspect.Parameter.empty:
        return (Any,)
    return typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)


def _check_kind(name, value, kinds):
    optional = "None or " if types.NoneType in kinds else ""
    kinds = [kind for kind in kinds if kind is not types.NoneType]
    kind = kinds[0]
    if _is_array(kind):
        _check_array(name, value, kind)
    elif kind in SCALARS:
        must, fits = SCALARS[kind]
        if not fits(value):
            raise ValueError(f"{name} was {value!r}; it must be {optional}{must}")
    else:
        origins = tuple(typing.get_origin(kind) or kind for kind in kinds)
        if not isinstance(value, origins):
            must = " or ".join(WORDS.get(origin) or f"a {origin.__name__}".replace("a A", "an A") for origin in origins)
            raise ValueError(f"{name} was {type(value).__name__}; it must be {optional}{must}")


def _check_array(name, value, kind):
    library = "NumPy array" if kind.array_type.__module__ == "numpy" else "tensor"
    if not isinstance(value, kind.array_type):
        raise ValueError(f"{name} was {type(value).__name__}; it must be a {library}")
    if not isinstance(value, kind.dtype[kind.array_type, "..."]):
        raise ValueError(f"{name} had dtype {value.dtype}; it must be a {library} of {'booleans' if kind.dtype is Bool else 'whole numbers'}")


def _check_shapes(arguments, kinds):
    with jaxtyped("context"):
        for name, value in arguments.items():
            shapes = [kind for kind in kinds[name] if _is_array(kind)]
            if shapes and value is not None and not any(isinstance(value, kind) for kind in shapes):
                must = " or ".join(f"({kind.dim_str.replace(' ', ', ')})" for kind in shapes)
                raise ValueError(f"{name} had shape {tuple(value.shape)}; it must be {must}, where each name is one size in all arguments")
