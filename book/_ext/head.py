"""What search engines and social networks read: descriptions, previews, and a site map."""

import html
from pathlib import Path
from xml.sax.saxutils import escape

from docutils import nodes

PREVIEW = "_static/preview.png"
LENGTH = 200


def description(doctree):
    """The page's first paragraph, cut at a word."""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            text = " ".join(paragraph.astext().split())
            return text if len(text) <= LENGTH else text[:LENGTH].rsplit(" ", 1)[0] + " …"
    return ""


def add_metadata(app, pagename, templatename, context, doctree):
    site = app.config.html_baseurl
    title = doctree.next_node(nodes.title) if doctree else None
    about = description(doctree) if doctree else ""
    about = about or app.config.html_title
    properties = {
        "og:type": "article",
        "og:site_name": app.config.html_title,
        "og:title": title.astext() if title else app.config.html_title,
        "og:description": about,
    }
    if site:  # these must be absolute
        properties |= {"og:url": f"{site}{pagename}.html", "og:image": site + PREVIEW}
    tags = [f'<meta property="{name}" content="{html.escape(value)}">' for name, value in properties.items()]
    tags += [f'<meta name="description" content="{html.escape(about)}">', '<meta name="twitter:card" content="summary_large_image">']
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def write_sitemap(app, exception):
    site = app.config.html_baseurl
    if exception or app.builder.name != "html" or not site:
        return
    urls = "\n".join(f"  <url><loc>{escape(site)}{page}.html</loc></url>" for page in sorted(app.env.found_docs))
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{urls}\n</urlset>\n'
    Path(app.outdir, "sitemap.xml").write_text(text, encoding="utf-8")


def setup(app):
    app.connect("html-page-context", add_metadata)
    app.connect("build-finished", write_sitemap)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
