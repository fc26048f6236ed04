"""What the live page reads: complete, consistent, and the same every time."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

from byhand.live import step
from byhand.live.data import data, script
from byhand.live.questions import RATES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stored():
    return json.loads(json.dumps(data()))


def test_every_stage_stands_in_one_room_and_has_a_name(stored):
    homes = {stored["homes"].get(name, re.sub("^(d|new):", "", name)) for name, *_ in stored["stages"]} | stored["leaves"].keys()
    placed = Counter(name for room in stored["rooms"] for kind in ("stages", "weights") for name in room[kind])
    given = {name for room in stored["rooms"] for name in room["given"]}
    assert set(placed.values()) == {1} and not placed.keys() & given and homes == placed.keys() | given
    assert homes == stored["labels"].keys()


def test_words_speak_of_their_own_letters(stored):
    axes = {name: pattern for name, pattern, *_ in stored["stages"]} | stored["leaves"]
    for name, (_, words) in stored["labels"].items():
        assert set(re.findall(r"\{(\w+)\}", words)) <= set(axes[name].split(",")), name
    gradient_axes = {name[2:]: pattern for name, pattern in axes.items() if name.startswith("d:") and name[2:] in axes}
    assert all(len(axes[name].split(",")) == len(pattern.split(",")) for name, pattern in gradient_axes.items())


def test_rooms_are_stops_of_the_map(stored):
    """And the map leads into the live step at stages that there are."""
    placed = yaml.safe_load((ROOT / "book/map.yml").read_text("utf-8"))
    stops = placed["stops"]["encoder"] | placed["stops"]["decoder"]
    assert {room["stop"] for room in stored["rooms"]} <= stops.keys()
    named = [stage for stop in stops.values() for stage in np.ravel(stop["live"])]
    named += [stage for page in placed["pages"].values() for stage in (page.get("live"), *page.get("explains", [])) if stage]
    assert set(named) <= {name for name, *_ in stored["stages"]} | stored["leaves"].keys()


def test_operands_exist_and_patterns_fit(stored):
    axes = {name: pattern for name, pattern, *_ in stored["stages"]} | stored["leaves"]
    rows = stored["stages"] + [row for rows in stored["switches"].values() for row in rows]
    for name, pattern, rule, _, operands in rows:
        assert rule in stored["rules"] and axes[name] == pattern
        for of, read in operands.values():
            assert len(axes[of].split(",")) == len(read.split(",")), (name, of)


def test_examples_are_whole(stored):
    assert stored["toys"].keys() == RATES.keys()
    for toy in stored["toys"].values():
        assert toy["leaves"].keys() == step.leaf_axes().keys()
        for name, pattern in stored["leaves"].items():
            assert len(toy["leaves"][name]) == np.prod([toy["sizes"][letter] for letter in pattern if letter != ","], dtype=int), name


def test_it_is_small_and_the_same_every_time():
    text = script()
    assert text == script() and len(text.encode()) < 120_000
    assert "NaN" not in text and "Infinity" not in text
