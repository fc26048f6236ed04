"""The page for teachers: what it names is there, and its ready-made sheets are what the commands write today."""

import re

import pytest

from byhand.check.exercises import EXERCISES
from byhand.worked.worksheet import write


@pytest.fixture(scope="module")
def sessions(root):
    return (root / "book/workshop/teachers.md").read_text("utf-8").split("\n## ")[1:9]


def test_each_session_has_all_its_parts(sessions):
    known = {mistake for exercise in EXERCISES.values() for mistake in exercise.mistakes}
    for number, session in enumerate(sessions, 1):
        assert session.startswith(f"{number}. ")
        for part in ("Aim", "Pages", "Opening question", "Worksheet", "Mistakes", "At home"):
            assert session.count(f"**{part}.**") == 1, (number, part)
        mistakes = re.findall(r"\*([^*]+)\*", re.search(r"\*\*Mistakes\.\*\* (.*)", session)[1])
        assert len(mistakes) == 3 and set(mistakes) <= known, number
        exercises = re.findall(r"`(\w+)`", re.search(r"\*\*At home\.\*\* (.*)", session)[1])
        assert exercises and set(exercises) <= EXERCISES.keys(), number


def test_the_sheets_are_what_the_commands_write(root, sessions, tmp_path):
    folder = root / "book/workshop/worksheets"
    written = {path.name for path in write("step", 1, tmp_path) if path.suffix == ".html"}
    for session in sessions:
        topic, seed = re.search(r"`python -m byhand worksheet --topic ([\w-]+) --seed (\d+)`", session).groups()
        named = set(re.findall(r"worksheets/([\w-]+\.html)", session))
        assert named == {path.name for path in write(topic, int(seed), tmp_path) if path.suffix == ".html"}
        written |= named
    assert written == {path.name for path in folder.iterdir()}
    assert [name for name in written if (folder / name).read_bytes() != (tmp_path / name).read_bytes()] == []
