"""The live step and the small live figures: their data is written when the site is built, their scripts load on the pages that hold them."""

from pathlib import Path

PAGE = "book/step/00-live"
SCRIPTS = ("live/step.data.js", "live/step.js", "live/page.js")
FIGURES = "live/figures.js"  # loads the others when a figure comes near the screen


def add_files(app, pagename, templatename, context, doctree):
    if pagename == PAGE and app.builder.name == "html":
        app.add_css_file("live/live.css")
        for script in SCRIPTS:
            app.add_js_file(script, defer="defer")
    elif app.builder.name == "html" and "byhand-live" in context.get("body", ""):
        app.add_js_file(FIGURES, defer="defer")


def write_data(app):
    if app.builder.name == "html" and PAGE in app.env.found_docs:
        from byhand.live.data import script  # a book without the page does not need the package

        file = Path(app.outdir, "_static", SCRIPTS[0])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script(pages=pages_that_explain(app)), encoding="utf-8")
    return []


def pages_that_explain(app):
    """For the stops of the map, and the stages that a page names on it: [forward, backward], each with address and title."""
    step = app.env.step_map

    def page(name):
        return [app.builder.get_relative_uri(PAGE, name), app.env.titles[name].astext()] if name in app.env.titles else None

    stops = {stop: [page(step.page_about(stop, direction)) for direction in ("forward", "backward")] for stop in step.stops}
    named = {stage: [page(name)] * 2 for name, place in step.pages.items() for stage in (place.get("live"), *place.get("explains", [])) if stage}
    return stops | named


def setup(app):
    app.connect("html-page-context", add_files)
    app.connect("html-collect-pages", write_data)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
