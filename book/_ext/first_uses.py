"""The first use of a glossary term on each page leads to the glossary; an ordinary link can lead to a term."""

import re

from docutils import nodes

# Everyday words that the glossary gives a second meaning: linked only where an author writes {term}.
EVERYDAY = {"activation", "cache", "decoder", "encoder", "gradient", "key", "memory", "padding", "parameter", "query", "token", "value"}
BIBLIOGRAPHY = "book/appendix/bibliography"  # titles of other people's works
NOT_IN = (nodes.title, nodes.reference, nodes.literal, nodes.literal_block, nodes.math, nodes.raw, nodes.term, nodes.strong, nodes.emphasis, nodes.citation)


def glossary_terms(env):
    """{term: (page, anchor)}, longest first, so that 'attention head' wins over 'attention'."""
    objects = env.get_domain("std").objects
    terms = {plain(name): place for (kind, name), place in objects.items() if kind == "term" and name not in EVERYDAY}
    return dict(sorted(terms.items(), key=lambda item: (-len(item[0]), item[0])))


def plain(words):
    """Words as they are looked up: hyphens and capitals make no difference."""
    return re.sub(r"[\s-]+", " ", words).lower()


def pattern(terms):
    words = (term.replace(" ", r"[\s-]+") for term in terms)
    return re.compile(rf"(?<![\w-])({'|'.join(words)})(?=s?(?![\w-]))", re.IGNORECASE)


def prose(doctree):
    """The text of paragraphs outside headings, links, code and mathematics, in reading order."""
    for text in list(doctree.findall(nodes.Text)):
        node, inside_paragraph = text.parent, False
        while node is not None and not isinstance(node, NOT_IN):
            inside_paragraph = inside_paragraph or isinstance(node, nodes.paragraph)
            node = node.parent
        if node is None and inside_paragraph:
            yield text


def link_first_uses(app, doctree, docname):
    terms = glossary_terms(app.env)
    if app.builder.format != "html" or not terms or docname in {page for page, _ in terms.values()} | {BIBLIOGRAPHY}:
        return
    words, left = pattern(terms), set(terms)
    for text in prose(doctree):
        pieces, rest = [], str(text)
        while found := next((m for m in words.finditer(rest) if plain(m[1]) in left), None):
            left.discard(plain(found[1]))
            page, anchor = terms[plain(found[1])]
            address = f"{app.builder.get_relative_uri(docname, page)}#{anchor}"
            pieces += [nodes.Text(rest[: found.start()]), nodes.reference("", found[1], refuri=address, internal=True, classes=["first-use"])]
            rest = rest[found.end() :]
        if pieces:
            text.parent.replace(text, [*pieces, nodes.Text(rest)])


def make_addresses(app, env):
    """Each term is a place that a link can name, glossary.md#term-encoder, as a heading is."""
    for (kind, name), (page, anchor) in env.get_domain("std").objects.items():
        if kind == "term":
            env.metadata[page].setdefault("myst_slugs", {})[f"term-{plain(name).replace(' ', '-')}"] = (0, anchor, name)


def setup(app):
    app.connect("env-check-consistency", make_addresses)
    app.connect("doctree-resolved", link_first_uses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
