import pytest

from byhand import worked

LEDGER = """
claims:
- {id: d1-right, line: 7, printed: '0.944', agrees: true}
- {id: d1-wrong, line: 8, printed: ['0.535', '0.197'], agrees: false}
- {id: d1-none, line: 9, printed: null, agrees: true}
"""


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "claims.yml"
    path.write_text(LEDGER)
    return path


def test_a_row_for_each_figure_with_its_verdict(ledger):
    text = repr(worked.document_figures(ledger, {"d1-right": 0.94419, "d1-wrong": [0.534447, 0.196612]}))
    assert "1 of 2 figures are as printed, these are not:" in text and "right (line\N{NO-BREAK SPACE}7)" in text
    assert "0.535: rounds to 0.534" in text and text.index("wrong") < text.index("right")


def test_all_as_printed(ledger):
    assert repr(worked.document_figures(ledger, {"d1-right": 0.94419})).startswith("1 of 1 figures are as printed.")


@pytest.mark.parametrize("changed", [{"d1-right": 0.9}, {"d1-wrong": [0.535, 0.197]}, {"d1-right": -float("inf")}, {"d1-right": 1e50}])
def test_a_verdict_against_the_ledger_leaves_the_print_aside(ledger, changed):
    shown = worked.document_figures(ledger, {"d1-right": 0.94419} | changed)
    assert shown.value is None and "printed" not in shown.html
    assert shown.text.startswith(f"The input was changed: 1 of {len({'d1-right', *changed})} figures") and next(iter(changed))[3:] in shown.text


def test_only_claims_that_print_a_figure(ledger):
    for name in ("d1-none", "d1-missing"):
        with pytest.raises(ValueError, match=name):
            worked.document_figures(ledger, {name: 1.0})
