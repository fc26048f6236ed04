"""Old addresses lead on: for each line of book/moved.yml a small page at the old place, which keeps the anchor, also from file://.

A section that left a page of the book for another has a line with its anchor; a line of script in the page then leads on.
"""

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


LEAD_ON = "((renamed) => renamed[location.hash] && location.replace(renamed[location.hash]))({anchors});"


def read(app, docs):
    """{old page: (new page, {old anchor: new page#anchor})}; pages of the book lead to themselves. A warning for each line that leads nowhere."""
    file = Path(app.srcdir, TABLE)
    lines = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}) if file.exists() else {}
    moved = {f"book/{old}": (f"book/{new}", {}) for old, new in lines.items() if "#" not in old}
    for old, new in lines.items():
        page, _, anchor = old.partition("#")
        if not anchor:
            if f"book/{page}" in docs:
                log.warning("%s: %s is a page of the book", TABLE, old, type="book")
        elif f"book/{page}" in moved or f"book/{page}" in docs:
            moved.setdefault(f"book/{page}", (f"book/{page}", {}))[1][anchor] = f"book/{new}"
        else:
            log.warning("%s: %s has an anchor, but its page has no line", TABLE, old, type="book")
    return moved


def check(app, env, changed):
    app.env.moved = read(app, env.found_docs)
    for old, (new, anchors) in app.env.moved.items():
        for target in (new, *anchors.values()):
            if target.partition("#")[0] not in env.found_docs:
                log.warning("%s: %s leads to %s, which is not in the book", TABLE, old, target, type="book")


def renamed(app, old, anchors):
    return json.dumps({f"#{anchor}": address(app, old, target) for anchor, target in anchors.items()})


def lead_on(app, page, template, context, doctree):
    if app.builder.name == "html" and page in app.env.found_docs and page in app.env.moved:
        app.add_js_file(None, body=LEAD_ON.format(anchors=renamed(app, page, app.env.moved[page][1])))


def write(app, exception):
    if exception or app.builder.name != "html":
        return
    for old, (new, anchors) in app.env.moved.items():
        if old in app.env.found_docs or new not in app.env.found_docs:
            continue
        file = Path(app.outdir, f"{old}.html")
        file.parent.mkdir(parents=True, exist_ok=True)
        page = PAGE.format(url=address(app, old, new), anchors=renamed(app, old, anchors), title=escape(app.env.titles[new].astext()))
        file.write_text(page, encoding="utf-8")


def address(app, old, target):
    """The address of page#anchor as seen from the old page."""
    page, sign, anchor = target.partition("#")
    return relpath(f"{page}.html", old.rpartition("/")[0]) + sign + anchor


def setup(app):
    app.connect("env-before-read-docs", check)
    app.connect("html-page-context", lead_on)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
