"""Mends what the theme and the bibliography leave out for screen readers."""

import re

from docutils import nodes

# A cell that heads nothing, in the corner of a table, is no header.
EMPTY_HEADER = re.compile(r"<th\b([^>]*)>\s*(?:<p>\s*</p>)?\s*</th>")
SCOPE = re.compile(r'\s*scope="[^"]*"')
# Since DPUB-ARIA 1.1 an entry of a list needs no role of its own.
DEPRECATED_ROLE = re.compile(r'\s+role="doc-(?:biblioentry|endnote)"')


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


def mend_body(app, pagename, templatename, context, doctree):
    """Citations are called a list whose parts are no items, with roles that are out of use; the corner of a table is called a header."""
    body = context.get("body", "")
    if doctree and next(doctree.findall(nodes.citation), None):
        body = body.replace('<div role="list" class="citation-list">', '<div class="citation-list">')
        body = DEPRECATED_ROLE.sub("", body)
    if "<th" in body:
        body = EMPTY_HEADER.sub(lambda cell: f"<td{SCOPE.sub('', cell[1])}></td>", body)
    if body:
        context["body"] = body


def setup(app):
    app.connect("html-page-context", name_the_folds, priority=900)
    app.connect("html-page-context", mend_body)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
