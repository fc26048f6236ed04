"""What an import brings along."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "sympy", "matplotlib", "IPython", "pandas"}


def _loaded(statement):
    code = f"import sys; {statement}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import byhand",
        "import byhand.numpy",
        "from byhand.numpy import transformer, optimizer",
        "from byhand import toy; toy.document(); toy.exact(); toy.lively(); toy.generic()",
        "from byhand import check, toy; c = toy.lively(); check.invariants(c.params, c.config, c).require()",
    ],
)
def test_the_numpy_floor_and_the_checks_need_numpy_alone(statement):
    assert not _loaded(statement) & HEAVY


@pytest.mark.parametrize(("floor", "library"), [("torch", "torch"), ("sympy", "sympy")])
def test_the_other_floors_bring_their_library(floor, library):
    assert library in _loaded(f"from byhand import {floor}")


def test_the_symbolic_floor_does_not_need_pytorch():
    assert "torch" not in _loaded("from byhand import sympy")


def test_an_unknown_floor():
    import byhand

    with pytest.raises(AttributeError, match="has no attribute 'jax'"):
        byhand.jax
