import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def assert_agrees():
    """DESIGN.md's measure, max|a − b| / max(max|a|, max|b|, 1e-3), held below 1e-12; the shapes must be equal."""

    def check(found, expected, bound=1e-12):
        found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
        assert found.shape == expected.shape
        scale = max(np.abs(found).max(), np.abs(expected).max(), 1e-3)
        assert np.abs(found - expected).max() / scale < bound

    return check


@pytest.fixture
def assert_proved():
    """Every derivation is proved: nothing is left of derivative − rule, and the proof is of something that moves."""

    def check(derivations):
        for derivation in derivations.values():
            assert derivation.difference_is_zero, f"{derivation!r}\n{derivation.difference}"
            assert not derivation.derivative.is_zero_matrix

    return check
