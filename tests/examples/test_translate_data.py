"""Sentences, word pieces and batches."""

import datetime
import unicodedata

import numpy as np
import pytest
from translate import align
from translate.data import KINDS, PARTS, Example, batch, batches, examples, order, pair, pairs, part
from translate.vocabulary import END, PAD, SPECIAL, START, Vocabulary


def day(*date):
    return datetime.date(*date).toordinal()


@pytest.fixture(scope="module")
def train():
    return pairs("train", {"number": 1500, "long date": 500, "full date": 500})


@pytest.fixture(scope="module")
def vocabularies(train):
    return [Vocabulary.train([getattr(one, side) for one in train], 256) for side in ("source", "target")]


@pytest.mark.parametrize(
    "value, french",
    [
        (80, "quatre-vingts"), (81, "quatre-vingt-un"), (200, "deux cents"), (201, "deux cent un"), (71, "soixante et onze"),
        (80_000, "quatre-vingt mille"), (200_000, "deux cent mille"), (280_000, "deux cent quatre-vingt mille"), (1_000, "mille"),
    ],
)  # fmt: skip
def test_french_numerals_that_others_get_wrong(value, french):
    assert pair("number", value).source == french


def test_the_first_of_a_month_is_mended_in_both_formats():
    assert pair("long date", day(2024, 3, 1)).source == "1er mars 2024"
    assert pair("full date", day(2024, 3, 1)).source == "vendredi 1er mars 2024"
    assert pair("long date", day(2024, 3, 11)).source == "11 mars 2024"


def test_the_year_is_that_of_the_calendar_and_not_of_the_week():
    assert pair("long date", day(2024, 12, 30))[2:] == ("30 décembre 2024", "December 30, 2024")  # its ISO week is of 2025
    assert pair("full date", day(2021, 1, 1)).target == "Friday, January 1, 2021"  # its ISO week is of 2020


def test_no_two_values_share_a_sentence():
    many = [pair("number", value) for value in range(0, 1_000_000, 997)] + [pair("number", value) for value in range(2100)]
    many += [pair(kind, value) for kind in KINDS[1:] for value in range(day(1900, 1, 1), day(2099, 12, 31), 37)]
    french, english = {}, {}
    for one in many:
        assert french.setdefault(one.source, one.target) == one.target
        assert english.setdefault(one.target, one.source) == one.source
    assert len(french) == len(english) == len({(one.kind, one.value) for one in many})


def test_parts_have_no_sentence_in_common():
    sides = {name: pairs(name, {"number": 1500, "long date": 400, "full date": 400}) for name in PARTS}
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not {p.source for p in sides[one]} & {p.source for p in sides[other]}
        assert not {p.target for p in sides[one]} & {p.target for p in sides[other]}
    assert all(part(one.kind, one.value) == name for name, some in sides.items() for one in some)


def test_both_formats_of_a_date_are_in_one_part():
    assert all(part("long date", value) == part("full date", value) for value in range(day(2000, 1, 1), day(2001, 1, 1)))


def test_pairs_are_different_and_small_numbers_are_among_them():
    some = pairs("train", {"number": 1000})
    assert len({one.value for one in some}) == 1000
    assert 200 < sum(one.value < 2000 for one in some) < 300
    assert pairs("train", {"number": 50}) == some[:50]


@pytest.mark.parametrize(
    "call, names",
    [
        (lambda: pair("ordinal", 1), "ordinal"),
        (lambda: pair("number", 1_000_000), "1000000"),
        (lambda: pair("long date", 1), "long date"),
        (lambda: pairs("rest", {"number": 1}), "rest"),
        (lambda: pairs("train", {"words": 1}), "words"),
        (lambda: pairs("test", {"number": 900_000}), "900000"),
    ],
)
def test_what_cannot_be_drawn_is_named(call, names):
    with pytest.raises(ValueError, match=names):
        call()


# ---- word pieces ----


def test_decoding_gives_back_every_sentence(train, vocabularies):
    for vocabulary, side in zip(vocabularies, ("source", "target"), strict=True):
        for one in train:
            assert vocabulary.decode(vocabulary.encode(getattr(one, side))) == getattr(one, side)


def test_decoding_gives_back_spaces_of_all_kinds_and_apostrophes():
    odd = ["l\u2019été à 5\u00a0h", "  deux  espaces ", "a\tb\u202fc", "naïf - œuf", "fin\n"]
    vocabulary = Vocabulary.train(odd, 60)
    for sentence in odd:
        assert vocabulary.decode(vocabulary.encode(sentence)) == sentence


def test_the_order_of_the_sentences_does_not_matter(train, vocabularies):
    sentences = [one.source for one in train]
    shuffled = [sentences[place] for place in np.random.default_rng(0).permutation(len(sentences))]
    assert Vocabulary.train(shuffled, 256).tokenizer.to_str() == vocabularies[0].tokenizer.to_str()


def test_an_unknown_character_is_named(vocabularies):
    with pytest.raises(ValueError, match=r"'w' \(U\+0077\) at place 0"):
        vocabularies[0].encode("week-end")
    with pytest.raises(ValueError, match=r"U\+0301"):
        vocabularies[0].encode(unicodedata.normalize("NFD", "zéro"))
    with pytest.raises(ValueError, match="empty"):
        vocabularies[0].encode("")


def test_ends_cannot_be_written_as_text():
    vocabulary = Vocabulary.train(["a <eos> b <pad> <bos>"], 40)
    with pytest.raises(ValueError, match="<eos>"):
        vocabulary.encode("a <eos> b")


def test_a_vocabulary_comes_back_from_its_file(tmp_path, vocabularies):
    vocabularies[0].save(tmp_path / "source.json")
    again = Vocabulary.load(tmp_path / "source.json")
    assert again.encode("vingt et un") == vocabularies[0].encode("vingt et un")
    assert len(again) == len(vocabularies[0]) and again.pieces(range(3)) == list(SPECIAL)
    (tmp_path / "source.json").write_text("{}")
    with pytest.raises(ValueError, match="source.json"):
        Vocabulary.load(tmp_path / "source.json")


def test_a_vocabulary_of_nothing_or_too_small_is_refused():
    with pytest.raises(ValueError, match="no text"):
        Vocabulary.train([], 10)
    with pytest.raises(ValueError, match="size was 4"):
        Vocabulary.train(["abc"], 4)


# ---- batches ----


def test_the_decoder_reads_the_start_and_says_the_end():
    made = batch([Example([7, END], [5, 6]), Example([8, 9, 9, END], [4])])
    assert made.decoder_input.tolist() == [[START, 5, 6], [START, 4, PAD]]
    assert made.targets.tolist() == [[5, 6, END], [4, END, PAD]]
    assert made.source.tolist() == [[7, END, PAD, PAD], [8, 9, 9, END]]
    assert made.source_lengths.tolist() == [2, 4] and made.target_lengths.tolist() == [3, 2]
    assert made.tokens == 5 and (made.targets == END).sum() == 2


def some_examples(count, seed=0):
    rng = np.random.default_rng(seed)
    return [Example([3] * int(rng.integers(1, 9)), [4] * int(rng.integers(1, 9))) for _ in range(count)]


def test_an_epoch_has_each_example_once_in_an_order_of_its_own():
    all_examples = some_examples(103)
    first, again, second = (order(all_examples, 10, 5, epoch) for epoch in (1, 1, 2))
    assert sorted(np.concatenate(first).tolist()) == sorted(np.concatenate(second).tolist()) == list(range(103))
    assert [places.tolist() for places in first] == [places.tolist() for places in again] != [places.tolist() for places in second]
    assert sorted(map(len, first)) == [3] + [10] * 10
    assert [p.tolist() for p in first] != [p.tolist() for p in order(all_examples, 10, 6, 1)]


def test_a_batch_holds_like_lengths():
    all_examples = some_examples(500)
    spread = [np.ptp([len(all_examples[place].source) + len(all_examples[place].target) for place in places]) for places in order(all_examples, 10, 0, 1)]
    assert np.mean(spread) < 1


@pytest.mark.parametrize("done", [0, 1, 5, 10, 11, 12, 22, 26, 32])
def test_a_run_that_goes_on_gets_the_batches_that_were_left(done):
    all_examples = some_examples(103)  # 11 batches an epoch
    steady, resumed = batches(all_examples, 10, 5), batches(all_examples, 10, 5, done)
    wanted = [next(steady) for _ in range(done + 14)][done:]
    for epoch, places in wanted:
        got_epoch, got = next(resumed)
        assert got_epoch == epoch and got.tolist() == places.tolist()


def test_empty_one_sided_and_too_long_data_are_named(train, vocabularies):
    with pytest.raises(ValueError, match="target of number 5 was empty"):
        examples([pair("number", 5)._replace(target="")], *vocabularies)
    with pytest.raises(ValueError, match=r"'neuf cent.*max_length allows 8"):
        examples([pair("number", 999_999)], *vocabularies, max_length=8)
    with pytest.raises(ValueError, match="empty"):
        batch([])
    with pytest.raises(ValueError, match="empty"):
        next(batches([], 4, 0))
    with pytest.raises(ValueError, match="size was 0"):
        order(some_examples(3), 0, 0, 0)


# ---- the rule that aligns words ----


@pytest.mark.parametrize(
    "value, wanted",
    [
        (71, {"seventy": ["soixante", "onze"], "-one": ["-" + "onze"]}),
        (97, {"ninety": ["quatre", "-vingt", "-dix"], "-seven": ["-sept"]}),
        (17, {"seventeen": ["dix", "-sept"]}),
        (100, {"one": ["cent"], " hundred": ["cent"]}),
        (1000, {"one": ["mille"], " thousand": ["mille"]}),
        (200_080, {"two": ["deux"], " hundred": [" cent"], " thousand": [" mille"], " and": [], " eighty": [" quatre", "-vingts"]}),
        (21_000, {"twenty": ["vingt"], "-one": [" un"], " thousand": [" mille"]}),
    ],
)
def test_words_of_numerals_are_aligned_by_what_they_say(value, wanted):
    one = pair("number", value)
    french, english = align.words(one.source), align.words(one.target)
    found = {word: [french[place].strip() for place in sorted(some)] for word, some in zip(english, align.alignment(one.source, one.target), strict=True)}
    assert {word: [w.strip(" -") for w in some] for word, some in found.items()} == {word: [w.strip(" -") for w in some] for word, some in wanted.items()}


def test_words_of_dates_are_aligned_digit_by_digit():
    one = pair("full date", day(2022, 12, 22))
    assert one.source == "jeudi 22 décembre 2022" and one.target == "Thursday, December 22, 2022"
    assert align.alignment(one.source, one.target) == [{0}, set(), {4}, set(), {2}, {3}, set(), set(), {6}, {7}, {8}, {9}]


def test_every_sentence_has_words_that_the_rule_knows():
    for name in PARTS:
        for one in pairs(name, {"number": 800, "long date": 200, "full date": 200}, seed=3):
            for word, some in zip(align.words(one.target), align.alignment(one.source, one.target), strict=True):
                assert bool(some) == (word.strip(" -,") not in ("", "and")), (one, word)


def test_a_word_that_the_rule_does_not_know_is_named():
    with pytest.raises(ValueError, match="douzaine"):
        align.alignment("une douzaine"[4:], "twelve")


def test_attention_to_pieces_is_summed_to_words():
    weights = np.arange(20.0).reshape(1, 4, 5) / 100
    words = align.by_words(weights, ["six", "ty", "-one", "<eos>"], ["soi", "xante", " et", " un", "<eos>"])
    np.testing.assert_allclose(words, [[[0.00 + 0.01, 0.02, 0.03], [0.10 + 0.11, 0.12, 0.13]]])
    hits, aligned = align.agreement(words, [{2}, {0, 1}])
    assert hits.tolist() == [2] and aligned == 2  # at 'un' and at 'soixante'
    hits, aligned = align.agreement(words, [set(), {1}])
    assert hits.tolist() == [0] and aligned == 1
