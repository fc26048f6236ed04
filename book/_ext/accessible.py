"""Mends what the theme leaves out for screen readers."""


def name_the_folds(app, pagename, templatename, context, doctree):
    """The sidebar's folds show only an arrow: give each a name."""
    make_tree = context.get("generate_toctree_html")
    if make_tree is None:
        return

    def named_tree(*arguments, **options):
        tree = make_tree(*arguments, **options)
        for summary in tree.select("summary") if hasattr(tree, "select") else ():
            summary["aria-label"] = "Pages below"
        return tree

    context["generate_toctree_html"] = named_tree


def setup(app):
    app.connect("html-page-context", name_the_folds, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
