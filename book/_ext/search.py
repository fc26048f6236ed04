"""The search page's own index: every section, glossary entry and function with its text, in a script that only that page loads.

Sphinx's index knows which page holds which word, and no more: no excerpts where there is no server, and titles that do not
count for what they are. book/_static/search.js ranks; vendor/minisearch does the looking up.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

# What a page is, for the ranking: by the beginning of its name, first match.
KINDS = {
    "book/appendix/reference/": "reference",
    "book/appendix/bibliography": "bibliography",
    "book/appendix/claims": "ledger",
    "book/appendix/kill-matrix": "ledger",
    "book/appendix/glossary": "glossary",
    "": "page",
}
SKIPPED = (nodes.raw, nodes.comment, nodes.image, nodes.substitution_definition, addnodes.toctree, addnodes.index)
# In a formula's TeX: what only sets letters or space; then each other command is a word, but for the root.
TEX_LETTERS = re.compile(r"\\(?:operatorname|mathrm|mathbf|text|mathcal|boldsymbol|left|right|big|Big|displaystyle|textstyle|quad|qquad)\b\*?|\\[,;:! ]")
TEX_COMMAND = re.compile(r"\\([a-zA-Z]+)\s*")


def collect(app, doctree):
    page = app.env.docname
    if not hasattr(app.env, "book_search"):
        app.env.book_search = {}
    app.env.book_search[page] = list(entries(doctree))


def entries(doctree):
    """Dicts with anchor, title, text and code; a glossary entry also has its other names and the pages that it points to."""
    for section in doctree.findall(nodes.section):
        text, code = words(section)
        top = isinstance(section.parent, nodes.document)
        yield {"anchor": "" if top else section["ids"][0], "title": plain(section.next_node(nodes.title)), "text": text, "code": code}
    for item in doctree.findall(lambda node: isinstance(node, nodes.definition_list_item) and isinstance(node.parent.parent, addnodes.glossary)):
        names = [term for term in item.children if isinstance(term, nodes.term)]
        pages = [link["reftarget"] for link in item.findall(addnodes.pending_xref) if link.get("refdomain") == "doc"]
        text, _ = words(item.children[-1])
        titles = [plain(name) for name in names]
        yield {"anchor": names[0]["ids"][0], "title": titles[0], "names": titles, "text": text, "code": "", "pages": pages}
    for described in doctree.findall(addnodes.desc):
        signature, content = described.children[0], described.children[-1]
        text = "\n".join(block.astext() for block in content.children if isinstance(block, nodes.literal_block))
        name = signature.get("fullname", "")
        if name and signature["ids"]:
            yield {"anchor": signature["ids"][0], "title": name.replace("._", "."), "text": squeeze(text), "code": signature["ids"][0]}


def words(section):
    """(prose, code) of a section, without its subsections, its outputs, and what stands on its own in the index."""
    prose, code = [], []

    def walk(node):
        for child in node.children:
            if isinstance(child, (nodes.section, nodes.title, addnodes.glossary, addnodes.desc, *SKIPPED)) or "cell_output" in child.get("classes", ()):
                continue
            if isinstance(child, nodes.literal_block):
                code.append(child.astext())
            elif isinstance(child, nodes.math_block):
                continue
            elif isinstance(child, nodes.TextElement):
                prose.append(plain(child))
            else:
                walk(child)

    walk(section)
    return squeeze(" ".join(prose)), squeeze(" ".join(code))


def plain(node):
    """A node's text with its formulas in a line as one would read them aloud, more or less."""
    if isinstance(node, nodes.Text):
        return str(node)
    if isinstance(node, SKIPPED):
        return ""
    if isinstance(node, nodes.math):
        tex = TEX_COMMAND.sub(r"\1 ", TEX_LETTERS.sub("", node.astext()).replace("\\sqrt", "√"))
        return re.sub(r"[{}$&]", "", tex).strip()
    return "".join(map(plain, node.children))


def squeeze(text):
    return " ".join(text.split())


def forget(app, env, page):
    getattr(env, "book_search", {}).pop(page, None)


def merge(app, env, pages, other):
    env.book_search = {**getattr(env, "book_search", {}), **{page: other.book_search[page] for page in pages if page in other.book_search}}


def write(app, exception):
    if exception or app.builder.name != "html":
        return
    order = reading_order(app.env)
    pages = [page for page in order if page in app.env.book_search and app.env.book_search[page] and page != "genindex"]
    data = [
        {
            "page": page,
            "url": app.builder.get_target_uri(page),
            "kind": next(kind for start, kind in KINDS.items() if page.startswith(start)),
            "title": app.env.book_search[page][0]["title"],
            "entries": app.env.book_search[page],
        }
        for page in pages
    ]
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    Path(app.outdir, "_static", "search-index.js").write_text(f"window.bookIndex = {text};\n", encoding="utf-8")


def reading_order(env):
    """All pages as the contents list them."""
    seen = []

    def visit(page):
        if page not in seen:
            seen.append(page)
            for below in env.toctree_includes.get(page, []):
                visit(below)

    visit(env.config.root_doc)
    return seen


def own_search(app):
    """Sphinx makes no index of its own; the search page is written below."""
    if app.builder.name == "html":
        app.builder.search = False


def search_page(app):
    if app.builder.name == "html":
        yield "search", {}, "search.html"


def setup(app):
    app.connect("builder-inited", own_search)
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("html-collect-pages", search_page)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
