"""Nothing is left in the pages that loads from elsewhere, and no script is named twice."""


def drop_thebe(app):
    """Jupyter Book always loads sphinx-thebe, which writes an address of a content network into every page."""
    for event in ("env-before-read-docs", "doctree-resolved", "html-page-context"):
        for listener in list(app.events.listeners.get(event, [])):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)


def keep_needed_scripts(app, pagename, templatename, context, doctree):
    seen, kept = set(), []
    for script in context.get("script_files", []):
        name = str(getattr(script, "filename", script) or "")
        key = (name, getattr(script, "attributes", {}).get("body"))
        if key not in seen and not name.endswith("sphinx-thebe.js"):
            seen.add(key)
            kept.append(script)
    context["script_files"] = kept


def setup(app):
    app.connect("builder-inited", drop_thebe)
    app.connect("html-page-context", keep_needed_scripts, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
