"""Nothing is left in the pages that loads from elsewhere, and no script is named twice."""

import re


def drop_thebe(app):
    """Jupyter Book always loads sphinx-thebe, which writes an address of a content network into every page."""
    for event in ("env-before-read-docs", "doctree-resolved", "html-page-context"):
        for listener in list(app.events.listeners.get(event, [])):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)


def keep_needed_files(app, pagename, templatename, context, doctree):
    unused = ["sphinx-thebe"]
    if not re.search(r'class="[^"]*\bsd-', context.get("body", "")):  # cards, grids and tabs
        unused += ["sphinx-design", "design-tabs"]
    for kind in ("script_files", "css_files"):
        seen, kept = set(), []
        for file in context.get(kind, []):
            name = str(getattr(file, "filename", file) or "")
            key = (name, getattr(file, "attributes", {}).get("body"))
            if key not in seen and not any(part in name for part in unused):
                seen.add(key)
                kept.append(file)
        context[kind] = kept


def setup(app):
    app.connect("builder-inited", drop_thebe)
    app.connect("html-page-context", keep_needed_files, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
