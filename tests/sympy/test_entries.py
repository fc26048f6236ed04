"""What the exact floor is given by a reader is refused by name, where it cannot be meant."""

import inspect
import re

import numpy as np
import pytest

from byhand import sympy as bs
from byhand import toy

CASE = toy.document(exact=True)
FORWARD = dict(params=CASE.params, config=CASE.config, source=CASE.source, decoder_input=CASE.decoder_input)
STACK = toy.decoder()
WITNESS = dict(case=CASE, parameter="output.b", index=0, digits=5)


class Wrong:
    pass


TOKENS = [None, "x", 3, [], [[]], [[0.5, 1]], [[99, 0]], [[-1, 0]], np.array([[0.0, 1.0]]), [[True, False]], Wrong()]
LENGTHS = ["x", 3, [], [0], [9], [1, 2], [0.5], [None], Wrong()]
DIGITS = [0, -1, 1.5, "x", [3], Wrong()]
BAD = {
    "params": [None, "x", 3, [CASE.params], {}, CASE.params | {"unknown": np.ones(2)}, Wrong()],
    "config": [None, "x", 3, {}, Wrong()],
    "source": TOKENS, "decoder_input": TOKENS, "tokens": TOKENS, "source_lengths": LENGTHS, "target_lengths": LENGTHS, "lengths": LENGTHS, "digits": DIGITS,
    "case": [None, "x", 3, Wrong()], "parameter": [None, "x", 3, ["output.b"], Wrong()],
    "index": [None, "x", 0.5, 99, -1, (0, 0, 0), (0, None), Wrong()],
}  # fmt: skip
CALLS = {
    "transformer.forward": (bs.transformer.forward, FORWARD | {"source_lengths": None, "target_lengths": None, "digits": 3}),
    "decoder.forward": (
        bs.decoder.forward, dict(params=STACK.params, config=STACK.config, tokens=STACK.decoder_input, lengths=None, digits=3)
    ),
    "witness": (bs.witness, WITNESS),
    "witnesses": (bs.witnesses, {name: WITNESS[name] for name in ("case", "parameter", "digits")}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "argument"), [(name, argument) for name, (_, call) in CALLS.items() for argument in call])
def test_what_cannot_be_meant_is_refused_by_name(name, argument):
    function, call = CALLS[name]
    for bad in BAD[argument]:
        with pytest.raises((ValueError, IndexError), match=rf"\b{argument}|parameter") as found:
            function(**call | {argument: bad})
        assert "/byhand/" in str(found.traceback[-1].path)


@pytest.mark.parametrize("value", [None, "x", np.nan, [["a"]], Wrong()])
def test_a_parameter_that_is_no_matrix(value):
    with pytest.raises(ValueError, match="parameter 'output.b' was"):
        bs.transformer.forward(**FORWARD | {"params": CASE.params | {"output.b": value}})


def derivations():
    for module in vars(bs).values():
        for name, function in vars(module).items() if inspect.ismodule(module) else ():
            if name.endswith("_derivation"):
                yield pytest.param(function, [size for size, p in inspect.signature(function).parameters.items() if p.annotation is int], id=name)


@pytest.mark.parametrize(("function", "sizes"), list(derivations()))
def test_a_derivation_of_a_size_that_cannot_be(function, sizes):
    for size in sizes:
        for bad in (0, -1, 1.5, "2", None, True, [2]):
            with pytest.raises(ValueError, match=re.escape(f"{size} was {bad!r}; it must be a whole number of at least 1")):
                function(**{size: bad})
