"""The section 'Proof' at a page's end: closed until the reader, a link into it or the browser's find opens it.

In JupyterLab the same section is a collapsed heading, which book/_tools/normalise.py writes into the notebook.
"""

from docutils import nodes

OPENING = '<details class="proof"><summary>'


def fold(app, doctree, docname):
    """Put what stands under the heading 'Proof' into a closed block whose summary is that heading."""
    if app.builder.format != "html" or app.builder.name == "singlehtml":
        return
    for section in doctree.findall(nodes.section):
        if section.parent is not None and section.children[0].astext() == "Proof":
            title, *rest = section.children
            section.children = []
            section.extend([raw(OPENING), title, raw("</summary>"), *rest, raw("</details>")])


def raw(html):
    return nodes.raw("", html, format="html")


def setup(app):
    app.connect("doctree-resolved", fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
