import numpy as np
import pytest

from byhand import worked
from byhand.numpy import optimizer, position

rng = np.random.default_rng(0)


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize("d", [2, 4, 6])
def test_rope_row_is_the_packages(d, pairing):
    x = rng.normal(size=d)
    shown = worked.rope_row(x, 3, pairing=pairing)
    np.testing.assert_allclose(shown.value, position.rope(x[None], np.array([3]), pairing=pairing)[0][0], rtol=1e-12)
    assert len(shown.text.splitlines()) == 3 * d // 2 and shown.latex.count("&=") == 3 * d // 2


def test_rope_row_writes_the_arithmetic():
    lines = worked.rope_row([1, 2, 3, 4], 1).text.splitlines()
    assert lines[0] == "θ[0] = 1·1 = 1"
    assert lines[1] == "y[0] = 1·0.540 - 2·0.841 = -1.143"
    assert lines[3] == "θ[1] = 1·0.01 = 0.01"
    half = worked.rope_row([1, 2, 3, 4], 1, pairing="half").text.splitlines()
    assert half[1] == "y[0] = 1·0.540 - 3·0.841 = -1.984" and half[2].startswith("y[2] = ")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: worked.rope_row([1, 2, 3], 1), "even d"),
        (lambda: worked.rope_row([1, 2], -1), "positions held -1"),
        (lambda: worked.rope_row([1, 2], 1, pairing="both"), "pairing was 'both'"),
    ],
)
def test_rope_row_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_adam_steps_are_the_package_steps():
    gradients = rng.normal(size=3)
    shown = worked.adam_steps(gradients, weight=0.7, lr=lambda t: optimizer.noam(t, 512, 4000))
    params, state = {"w": np.array([0.7])}, None
    for t, g in enumerate(gradients, 1):
        params, state = optimizer.adam(params, {"w": np.array([g])}, state, lr=optimizer.noam(t, 512, 4000))
        assert shown.value[t - 1] == pytest.approx(params["w"][0], rel=1e-14)


def test_adam_steps_of_the_document():
    text = worked.adam_steps(0.5094466, lr=1.7469281e-7).text
    assert "m_1 = 0.9·0 + 0.1·0.5094 = 0.05094" in text
    assert "v_1 = 0.98·0 + 0.02·0.5094² = 0.005191" in text
    assert "w(1) = 1 - 1.747e-7 = 0.99999983" in text


def test_adam_steps_can_start_later():
    shown = worked.adam_steps([0.1, 0.2, -0.3], first=3)
    assert shown.text.startswith("t = 3: g = -0.3\n") and len(shown.value) == 3


@pytest.mark.parametrize(
    "args, message",
    [
        (dict(gradients=[np.nan]), "not finite"),
        (dict(gradients=[[1.0]]), "gradients had shape"),
        (dict(gradients=[1.0], betas=(1.0, 0.98)), r"betas was \(1.0, 0.98\)"),
        (dict(gradients=[1.0], eps=-1), "eps was -1"),
        (dict(gradients=[0.0], eps=0), "eps was 0"),
        (dict(gradients=[1.0], lr=[1, 2]), "lr gave"),
        (dict(gradients=[1.0], first=2), "first was 2"),
    ],
)
def test_adam_steps_refuse(args, message):
    with pytest.raises(ValueError, match=message):
        worked.adam_steps(**args)
