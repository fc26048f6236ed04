"""Pictures: each has alternative text, is a file of its own, and carries a link to that file.

The package's pictures are HTML outputs that hold an SVG in a data address (this is what JupyterLab shows). For the site each
becomes a file: pages get lighter, and the reader can keep the figure.
"""

import hashlib
import html
import re
from itertools import count
from pathlib import Path
from urllib.parse import unquote

from docutils import nodes
from sphinx.util import logging
from sphinx.util.osutil import relative_uri

log = logging.getLogger(__name__)
IMAGE = re.compile(r"<img\b[^>]*>")
DATA_SVG = re.compile(r'src="data:image/svg\+xml,([^"]*)"')
HAS_ALT = re.compile(r'\balt="[^"]*\w[^"]*"')
LINK = '<p class="picture-file"><a href="{0}" download="{1}">Picture as SVG file</a></p>'


def check_alternative_text(app, doctree):
    """Warn, and with that fail the build, about a picture that a screen reader cannot describe."""
    for image in doctree.findall(nodes.image):
        if not image.get("alt", "").strip():
            log.warning("a picture has no alternative text (use byhand.worked's pictures, or give alt)", location=image, type="book")
    for raw in doctree.findall(is_html):
        for tag in IMAGE.findall(raw.astext()):
            if not HAS_ALT.search(tag):
                log.warning("a picture in an HTML output has no alternative text", location=raw, type="book")


def is_html(node):
    return isinstance(node, nodes.raw) and "html" in node.get("format", "").split()


def make_files(app, doctree, docname):
    """Move each SVG that stands in a page to a file, and put a link to it under the picture."""
    if app.builder.name != "html":
        return
    folder = relative_uri(app.builder.get_target_uri(docname), "_images")
    names = (f"{docname.rpartition('/')[2]}-{number}.svg" for number in count(1))
    for raw in doctree.findall(is_html):
        text = IMAGE.sub(lambda tag: to_file(app, tag[0], folder, names), raw.astext())
        if text != raw.astext():
            raw.children[:] = [nodes.Text(text)]
            raw.rawsource = text


def to_file(app, tag, folder, names):
    """The image tag with the file's address in the place of the picture, and the link under it."""
    data = DATA_SVG.search(tag)
    if not data:
        return tag
    address = f"{folder}/{write_svg(app, unquote(html.unescape(data[1])))}"
    return DATA_SVG.sub(f'src="{address}"', tag) + LINK.format(address, next(names))


def write_svg(app, svg):
    """The name of the file under _images that holds this picture; equal pictures share one."""
    name = hashlib.sha256(svg.encode()).hexdigest()[:16] + ".svg"
    file = Path(app.outdir, "_images", name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(svg, encoding="utf-8")
    return name


def setup(app):
    app.connect("doctree-read", check_alternative_text)
    app.connect("doctree-resolved", make_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
