"""Worksheets on paper: one side of A4 each, the sheet and its solution."""

import pytest
from pypdf import PdfReader

from byhand.worked.problems import TOPICS
from byhand.worked.worksheet import write

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_prints_on_one_side(chromium, tmp_path, seed):
    tab = chromium.new_page()
    pages = {}
    for file in (file for topic in TOPICS for file in write(topic, seed, tmp_path) if file.suffix == ".html"):
        tab.goto(file.as_uri())
        reader = PdfReader(tab.pdf(path=tmp_path / f"{file.stem}.pdf", prefer_css_page_size=True) and tmp_path / f"{file.stem}.pdf")
        pages[file.stem] = len(reader.pages)
        assert [round(float(side) / 72 * 25.4) for side in reader.pages[0].mediabox[2:]] == [210, 297]
    tab.close()
    assert len(pages) == 2 * len(TOPICS)
    assert set(pages.values()) == {1}, pages
