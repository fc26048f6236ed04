"""Draw book/_static/preview.png, the picture of the README and of social previews, from the book's title and its map.

    python book/_tools/draw_preview.py
"""

import sys
from pathlib import Path

import yaml
from browser import start

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "book/_ext"))
from place import MAP, Map, draw  # noqa: E402

PAGE = "book/here"
TARGET = ROOT / "book/_static/preview.png"
STYLE = """
body { margin: 0; width: 1200px; height: 630px; box-sizing: border-box; padding: 64px 72px 0 }
body { background: #fff; color: #1c2128; font-family: "DejaVu Sans", sans-serif }
h1 { font-size: 64px; margin: 0 0 12px; font-weight: 600 } body > p { font-size: 27px; line-height: 1.4; margin: 0 0 34px; color: #5b6370 }
:root { --pst-color-border: #b9c0c9; --pst-color-text-muted: #5b6370; --pst-color-text-base: #1c2128 }
:root { --pst-color-background: #fff; --pst-color-primary: #0a62a5 }
.step-map p { display: none } .step-map.backward { margin-top: 28px }
"""


def page():
    """The title, what the book is, and the map twice: forward, and backward."""
    data = yaml.safe_load((ROOT / MAP).read_text(encoding="utf-8"))
    title = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["title"]
    maps = ""
    for direction, at in (("forward", "loss"), ("backward", "source_embedding")):
        data["pages"] = {"here": {"at": [at], "direction": direction}}
        maps += draw(Map(data), PAGE, lambda page: page)
    css = (ROOT / "book/_static/book.css").read_text(encoding="utf-8")
    about = "The transformer of 2017 as a single maths problem: every number computed, every gradient checked."
    return f"<!doctype html><style>{css}{STYLE}</style><h1>{title}</h1><p>{about}</p>{maps}"


def main():
    with start() as browser:
        if browser is None:
            sys.exit("No Chromium, Chrome or Edge was found to draw with.")
        tab = browser.new_page(viewport={"width": 1200, "height": 630})
        tab.set_content(page())
        tab.screenshot(path=TARGET)


if __name__ == "__main__":
    main()
