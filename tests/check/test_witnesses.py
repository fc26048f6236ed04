import numpy as np
import pytest

from byhand import check, toy
from byhand.check import witnesses
from byhand.numpy import step

NAMES = ["output.w", "decoder.0.norm_2.gamma", "encoder.0.self_attention.w_k", "source_embedding"]


@pytest.mark.parametrize("case", [toy.document(), toy.lively(), toy.generic()], ids=["document", "lively", "generic"])
def test_four_agree(case):
    names = NAMES if case.config.d_model == 4 else NAMES[1:2]
    report = check.four_witnesses(case, names, exact_entries=2)
    assert report, report
    assert [row.name for row in report.rows] == names


@pytest.mark.parametrize("case", [toy.block("pre"), toy.block("post"), toy.decoder()], ids=["pre", "post", "decoder"])
def test_four_agree_on_a_decoder_stack(case):
    names = ["block.0.attention.w_k", "block.0.norm_2.gamma", "embedding"]
    report = check.four_witnesses(case, names, exact_entries=2)
    assert report, report
    assert [row.name for row in report.rows] == names


def test_a_wrong_gradient_is_seen_by_all_three(monkeypatch):
    right = step.run(toy.lively())
    right_w = right.gradients.params["output.w"]
    wrong = right._replace(gradients=right.gradients._replace(params=right.gradients.params | {"output.w": 2 * right_w}))
    run = step.run
    calls = iter([wrong])
    monkeypatch.setattr(witnesses.step, "run", lambda case: next(calls, None) or run(case))
    row = check.four_witnesses(toy.lively(), ["output.w"], exact_entries=2)["output.w"]
    assert row.holds is False and all(verdict.startswith("off by") for verdict in row.verdicts)
    row_of, column = np.unravel_index(np.abs(right_w).argmax(), right_w.shape)
    assert row.where == f"PyTorch at [{row_of}, {column}]"  # the first that differs; SymPy's place is one among the two


def test_how_many_entries_sympy_saw():
    some, all_of_them = (check.four_witnesses(toy.lively(), ["output.b"], exact_entries=n).rows[0] for n in (2, toy.lively().params["output.b"].size))
    assert some.verdicts == (*all_of_them.verdicts[:2], f"{all_of_them.verdicts[2]} (2 of them)") and all(v.startswith("within") for v in all_of_them.verdicts)
    assert some.entries == all_of_them.entries == toy.lively().params["output.b"].size


def test_unknown_parameter():
    with pytest.raises(ValueError, match="'output.c'"):
        check.four_witnesses(toy.lively(), ["output.c"])


def test_a_gradient_that_must_be_0_is_0_for_sympy_and_too_small_for_the_others():
    row = check.four_witnesses(toy.document(), ["encoder.0.feed_forward.b_2"])["encoder.0.feed_forward.b_2"]
    assert row.holds is None and row.verdicts[-1] == "0 within 1e-15" and row.verdicts[1] == "too small to tell"
