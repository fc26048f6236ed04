"""Old addresses lead on: for each line of book/moved.yml a small page at the old place, which keeps the anchor, also from file://."""

import json
from html import escape
from pathlib import Path
from posixpath import relpath

import yaml
from sphinx.util import logging

log = logging.getLogger(__name__)
TABLE = "book/moved.yml"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="robots" content="noindex">
<link rel="canonical" href="{url}">
<script>
const renamed = {anchors};
location.replace(renamed[location.hash] ?? "{url}" + location.search + location.hash);
</script>
<noscript><meta http-equiv="refresh" content="0; url={url}"></noscript>
</head>
<body><p>This page has moved: <a href="{url}">{title}</a></p></body>
</html>
"""


def read(app):
    """{old page: (new page, {old anchor: new page#anchor})} with a warning for each line that leads nowhere."""
    file = Path(app.srcdir, TABLE)
    lines = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}) if file.exists() else {}
    moved = {f"book/{old}": (f"book/{new}", {}) for old, new in lines.items() if "#" not in old}
    for old, new in lines.items():
        page, _, anchor = old.partition("#")
        if anchor and f"book/{page}" in moved:
            moved[f"book/{page}"][1][anchor] = f"book/{new}"
        elif anchor:
            log.warning("%s: %s has an anchor, but its page has no line", TABLE, old, type="book")
    return moved


def check(app, env):
    app.env.moved = read(app)
    for old, (new, anchors) in app.env.moved.items():
        if old in env.found_docs:
            log.warning("%s: %s is a page of the book", TABLE, old, type="book")
        for target in (new, *anchors.values()):
            if target.partition("#")[0] not in env.found_docs:
                log.warning("%s: %s leads to %s, which is not in the book", TABLE, old, target, type="book")


def write(app, exception):
    if exception or app.builder.name != "html":
        return
    for old, (new, anchors) in app.env.moved.items():
        if new not in app.env.found_docs:
            continue
        file = Path(app.outdir, f"{old}.html")
        file.parent.mkdir(parents=True, exist_ok=True)
        renamed = {f"#{anchor}": address(app, old, target) for anchor, target in anchors.items()}
        file.write_text(PAGE.format(url=address(app, old, new), anchors=json.dumps(renamed), title=escape(app.env.titles[new].astext())), encoding="utf-8")


def address(app, old, target):
    """The address of page#anchor as seen from the old page."""
    page, sign, anchor = target.partition("#")
    return relpath(f"{page}.html", old.rpartition("/")[0]) + sign + anchor


def setup(app):
    app.connect("env-check-consistency", check)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
