"""The committed model, on NumPy alone, and the stored results."""

import json

import numpy as np
import pytest
from translate import align, results
from translate.__main__ import main
from translate.data import pairs
from translate.model import TRAINED, Translator


@pytest.fixture(scope="module")
def translator():
    return Translator.load()


def test_the_files_are_small():
    assert sum(path.stat().st_size for path in TRAINED.iterdir()) < 2_000_000


@pytest.mark.parametrize("kind, least", [("number", 30), ("long date", 15), ("full date", 15)])
def test_held_out_sentences_come_out_right(translator, kind, least):
    some = pairs("test", {kind: least}, seed=9)
    assert [translator.translate(one.source, width=1).text for one in some] == [one.target for one in some]


def test_float64_gives_the_same_words(translator):
    wide = Translator.load(dtype=np.float64)
    assert wide.params["output.b"].dtype == np.float64
    for one in pairs("test", {"number": 5}, seed=9):
        assert wide.translate(one.source, width=2).text == translator.translate(one.source, width=2).text


def test_stored_scores_reach_what_was_aimed_at():
    found = results.read("evaluation")
    share = {kind: one["exact"] / one["sentences"] for kind, one in found["kinds"].items()}
    assert share["number"] >= 0.99 and share["long date"] >= 0.97 and share["full date"] >= 0.97
    assert found["kinds"]["number"]["sentences"] >= 5000
    assert len(found["errors"]) == sum(one["sentences"] - one["exact"] for one in found["kinds"].values())
    assert np.max(found["alignment"]["heads"]) >= 0.9 * found["alignment"]["words"]


def test_the_stored_alignment_is_what_the_model_does(translator):
    found = results.read("evaluation")["alignment"]
    hits = np.zeros((translator.config.n_layers, translator.config.n_heads))
    words = 0
    for one in pairs("test", {"number": 25, "full date": 10}, seed=2):
        said = translator.translate(one.source, width=1)
        wanted = align.alignment(one.source, said.text)
        for layer, weights in enumerate(said.weights):
            right, aligned = align.agreement(align.by_words(weights, said.pieces, said.source_pieces), wanted)
            hits[layer] += right
        words += aligned
    stored = np.array(found["heads"]) / found["words"]
    assert np.unravel_index(hits.argmax(), hits.shape) == np.unravel_index(stored.argmax(), stored.shape)
    np.testing.assert_allclose(hits / words, stored, atol=0.2)


def test_the_command_translates(capsys):
    assert main(["translate", "vingt et un", "vendredi 1er mars 2024", "--beam", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == ["twenty-one", "Friday, March 1, 2024"]
    assert main(["translate", "week-end"]) == 1
    assert "'w' (U+0077)" in capsys.readouterr().err
    assert main(["translate", " ".join(["un"] * 40)]) == 1
    assert "40 pieces; the model reads at most 23" in capsys.readouterr().err


def test_scores_are_written_and_printed(tmp_path, capsys):
    out = tmp_path / "evaluation.json"
    assert main(["evaluate", "--number", "3", "--date", "2", "--out", str(out)]) == 0
    assert "number" in capsys.readouterr().out
    assert json.loads(out.read_text())["kinds"]["number"]["sentences"] == 3
    assert main(["evaluate", "--step", "3"]) == 1
    assert "--run and --step" in capsys.readouterr().err


def test_errors_are_sorted_by_what_went_wrong():
    errors = [
        {"source": "", "target": "one thousand, two", "said": "one thousand and two"},
        {"source": "", "target": "twenty-one", "said": "twenty-two"},
        {"source": "", "target": "thirty", "said": "thirty-one"},
        {"source": "", "target": "forty-one", "said": "fifty-one"},
        {"source": "", "target": "one hundred", "said": "one"},
        {"source": "", "target": "two hundred", "said": "two hundred thousand"},
    ]
    found = results.sorted_errors(errors)
    assert {kind: len(some) for kind, some in found.items()} == {
        "one word wrong": 3,
        "a word too many": 1,
        "a word missing": 1,
        "thousands that nobody said": 1,
    }
