import numpy as np
import pytest
import sympy

from byhand import worked
from byhand.worked.formatting import rounds_half_up

a = np.array([[1.0, 2.0], [3.0, -4.0]])


def test_agreement_prints_a_bound_and_no_residual():
    shown = worked.agreement(a, a + 1e-14)
    assert shown.text == "NumPy and PyTorch agree within 1e-12 (4 entries)"
    assert (
        worked.agreement({"w": a, "b": a[0]}, {"b": a[0], "w": a}, 1e-10, ("by hand", "SymPy"), "dL").text
        == "dL: by hand and SymPy agree within 1e-10 (2 arrays, 6 entries)"
    )
    assert worked.agreement(1.0, 1.0).text.endswith("(1 entry)")


def test_agreement_names_the_worst_entry():
    b = {"w": a.copy(), "b": a[0].copy()}
    b["w"][1, 0] += 1e-6
    with pytest.raises(AssertionError, match=r"differ by more than 1e-12, most at w\[1, 0\]: mine 3, yours 3.000001"):
        worked.agreement({"w": a, "b": a[0]}, b, names=("mine", "yours"))


def test_nan_never_agrees_with_a_number():
    with pytest.raises(AssertionError):
        worked.agreement([np.nan], [1.0])


def test_exact_and_torch():
    torch = pytest.importorskip("torch")
    worked.agreement(torch.tensor([[2.0**0.5]], dtype=torch.float64, requires_grad=True), sympy.Matrix([[sympy.sqrt(2)]]))


@pytest.mark.parametrize(
    "args, message",
    [
        ((a, a[0]), r"had shape \(2, 2\) and the other \(2,\)"),
        (({"w": a}, a), "both be dicts"),
        (({"w": a}, {"v": a}), r"lacked \['w'\] and had \['v'\]"),
        (({}, {}), "at least one"),
        ((a, a, 0), "bound was 0"),
        ((a, a, 2.0), "bound was 2.0"),
        ((np.zeros(0), np.zeros(0)), "at least one entry"),
    ],
)
def test_agreement_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        worked.agreement(*args)


def test_witnesses():
    shown = worked.witnesses(a, {"autograd": a, "central differences": a + 1e-9}, {"autograd": 1e-12, "central differences": 1e-6})
    assert [line.split("  ")[-1].strip() for line in shown.text.splitlines()[1:]] == ["agrees within 1e-12", "agrees within 1e-6"]
    assert "<td" in shown.html and "central differences" in shown.html
    with pytest.raises(AssertionError, match="by hand and autograd differ"):
        worked.witnesses(a, {"autograd": a + 1})
    with pytest.raises(ValueError, match="bounds named"):
        worked.witnesses(a, {"autograd": a}, {"fd": 1e-6})
    with pytest.raises(ValueError, match="others was empty"):
        worked.witnesses(a, {})


def test_printed_says_what_the_value_rounds_to():
    shown = worked.printed_table([("p_0", "0.535", 0.534446645388523)])
    assert shown.text.splitlines()[1].split(maxsplit=3) == ["p_0", "0.535", "0.534447", "rounds to 0.534"]
    assert shown.value is False
    assert worked.printed_table([("a", [["0.944", "0.056"]], [[0.94419, 0.05581]])]).text.endswith("as printed")


def test_printed_table_lists_only_what_differs():
    shown = worked.printed_table([("p", ["0.535", "0.197"], [0.534447, 0.196612]), ("lr", "1.75e-7", 1.7469281e-7), ("T", "2", np.int64(2))])
    lines = shown.text.splitlines()
    assert lines[1].endswith("0.535: rounds to 0.534")
    assert "1.74693e-7" in lines[2] and lines[2].endswith("as printed") and lines[3].endswith("as printed")
    assert shown.value is False and shown.html.count("<tr>") == 4


def test_prints_round_ties_up_and_forgive_the_last_bit():
    assert rounds_half_up(0.0625, "0.063") and rounds_half_up(0.06249999999999999, "0.063")
    assert rounds_half_up(-1e-17, "0")
    assert rounds_half_up(sympy.tanh(sympy.sqrt(2)), "0.888")
    assert not rounds_half_up(0.0625, "0.62")


@pytest.mark.parametrize(
    "args, message",
    [(("0.5", [0.5, 0.6]), "computed had 2 numbers and claimed had 1"), (("p - q", 1.0), "claimed was 'p - q'"), (("1", np.nan), "must be finite")],
)
def test_printed_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        worked.printed_table([("p", *args)])


def test_html_is_escaped():
    assert "&lt;bos&gt;" in worked.printed_table([("<bos>", "1", 1.0)]).html


def test_what_is_too_small_to_tell_is_no_agreement():
    tiny = np.array([1e-9, 2e-9])
    with pytest.raises(AssertionError, match="too small to tell"):
        worked.agreement(tiny, tiny * (1 + 1e-8), 1e-9)
    assert "1 array" not in repr(worked.agreement(tiny, tiny, 1e-9))
    assert "2 arrays, 4 entries; some too small to tell" in repr(worked.agreement({"a": tiny, "b": np.ones(2)}, {"a": tiny + 1e-15, "b": np.ones(2)}, 1e-9))
    worked.agreement(np.array([1e-17, -2e-17]), np.zeros(2), 1e-12, names=("the sums", "0"))  # that they are 0 is the claim
    with pytest.raises(AssertionError):
        worked.agreement(np.array([1e-14]), np.zeros(1), 1e-12)
