"""Mends what the theme and the bibliography leave out for screen readers."""

from docutils import nodes


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


def mend_citations(app, pagename, templatename, context, doctree):
    """docutils calls its citations a list, but none of its parts an item."""
    if doctree and next(doctree.findall(nodes.citation), None):
        context["body"] = context["body"].replace('<div role="list" class="citation-list">', '<div class="citation-list">')


def setup(app):
    app.connect("html-page-context", name_the_folds, priority=900)
    app.connect("html-page-context", mend_citations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
