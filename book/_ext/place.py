"""A small map of the training step at the top of each page that book/map.yml places on it.

Two lines like those of an underground railway: the encoder above, the decoder below, and the memory that joins them. The
page's own stops are filled; the arrows run forward, or backward on the pages about gradients. Each stop leads to the first
page about it in the same direction; below it stands the way into the live step at the page's first stop.

Elsewhere than on the site a page shows a picture of its map, without links: the normaliser draws it into book/maps and names it
under the title. On the site the map stands in the picture's place.
"""

import re
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import quote

import yaml
from docutils import nodes
from sphinx.errors import ConfigError
from sphinx.util import logging

log = logging.getLogger(__name__)
MAP = "book/map.yml"
PICTURES = "book/maps"
STEP, LEFT, WIDTH, HEIGHT = 62, 30, 804, 122
ROWS = {"encoder": 34, "decoder": 82}
DIRECTIONS = {"forward": "Forward", "backward": "Backward", "update": "Update"}
COLOURS = {"forward": "#0a62a5", "backward": "#b3460a", "update": "#7a3ea8"}
PICTURE_STYLE = """
text { font: 12px sans-serif; text-anchor: middle; fill: #5b6370 } .caption { text-anchor: start }
.track { fill: none; stroke: #b9c0c9; stroke-width: 2 } marker path { fill: #5b6370 }
circle { fill: #fff; stroke: #5b6370; stroke-width: 2 } .here text { fill: #1c2128; font-weight: 600 }
""".strip()


class Map:
    """The stops with their places on the drawing, and the pages that are about them."""

    def __init__(self, data):
        self.stops = {
            name: {**stop, "line": line, "x": LEFT + STEP * stop["column"], "y": ROWS[line]}
            for line, stops in data["stops"].items()
            for name, stop in stops.items()
        }
        self.memory = data["memory"]
        self.live = f"book/{data['live']}" if "live" in data else None
        self.pages = {f"book/{page}": place for page, place in data["pages"].items()}
        for page, place in self.pages.items():
            unknown = set(place["at"]) - set(self.stops)
            if unknown or place["direction"] not in DIRECTIONS:
                raise ConfigError(f"{MAP}, {page}: unknown stop or direction: {', '.join(sorted(unknown)) or place['direction']}")

    def page_about(self, stop, direction):
        """The first page about a stop, in this direction if there is one."""
        pages = [(place["direction"] != direction, page) for page, place in self.pages.items() if stop in place["at"]]
        return min(pages, key=lambda pair: pair[0])[1] if pages else None

    def live_stage(self, page):
        """The stage at which the map of a page leads into the live step; None where it does not."""
        place = self.pages[page]
        stages = place.get("live") or next((self.stops[name]["live"] for name in place["at"] if "live" in self.stops[name]), None)
        if stages is None:
            return None
        if isinstance(stages, str):
            return f"d:{stages}" if place["direction"] == "backward" and "live" not in place else stages
        return stages[place["direction"] == "backward"]

    def caption(self, place):
        """The place in words: 'Forward, encoder: self-attention'."""
        lines = {}
        for name in place["at"]:
            lines.setdefault(self.stops[name]["line"], []).append(self.stops[name]["name"])
        where = "; ".join(f"{line}: {', '.join(names)}" for line, names in lines.items()) or place["note"]
        return f"{DIRECTIONS[place['direction']]}, {where}"


def draw(step, page, link):
    """The map as HTML. `link` gives the address of a page, seen from this one."""
    place = step.pages[page]
    stage = step.live_stage(page) if step.live else None
    live = f' · <a href="{escape(link(step.live))}#at={quote(stage)}">its numbers, live</a>' if stage else ""
    return (
        f'<nav class="step-map {place["direction"]}" aria-label="Place in the training step">\n'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg">\n{lines_and_stops(step, page, link)}\n</svg>\n'
        f"<p>{escape(step.caption(place))}{live}</p>\n</nav>\n"
    )


def draw_picture(step, page):
    """The map as a picture of its own: its own colours on its own ground, the caption below, and no links."""
    place = step.pages[page]
    here = f".here circle {{ fill: {(colour := COLOURS[place['direction']])}; stroke: {colour}; r: 8px }}"
    height = HEIGHT + 26
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" xmlns="http://www.w3.org/2000/svg">\n'
        f"<style>\n{PICTURE_STYLE}\n{here}\n</style>\n"
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>\n{lines_and_stops(step, page)}\n'
        f'<text class="caption" x="{LEFT - 6}" y="{height - 8}">{escape(step.caption(place))}</text>\n</svg>\n'
    )


def lines_and_stops(step, page, link=None):
    place = step.pages[page]
    direction = place["direction"]
    tracks = [track(step, direction, names) for names in lines_of(step)]
    stops = [draw_stop(step, name, name in place["at"], direction, page, link) for name in step.stops]
    arrow = (
        '<defs><marker id="step-map-arrow" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="4" markerHeight="4" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    return "\n".join([arrow, *tracks, *stops])


def lines_of(step):
    """The names along the encoder, along the decoder, and along the memory."""
    for line in ROWS:
        yield [name for name, stop in step.stops.items() if stop["line"] == line]
    yield step.memory


def track(step, direction, names):
    """A line through the stops, with an arrow in the middle of each piece."""
    backward = direction == "backward"
    stops = [step.stops[name] for name in names if not (backward and step.stops[name].get("forward_only"))]
    points = [(stop["x"], stop["y"]) for stop in stops]
    if backward:
        points.reverse()
    path = "M" + "L".join(f"{x} {y}" for x, y in with_middles(points))
    return f'<path class="track" d="{path}" marker-mid="url(#step-map-arrow)"/>'


def with_middles(points):
    for (x, y), (to_x, to_y) in zip(points, points[1:]):
        yield x, y
        yield (x + to_x) / 2, (y + to_y) / 2
    yield points[-1]


def draw_stop(step, name, here, direction, page, link):
    stop = step.stops[name]
    x, y = stop["x"], stop["y"]
    above = stop["line"] == "encoder"
    first = y - 12 - 12 * (len(stop["label"]) - 1) if above else y + 21
    label = "".join(f'<tspan x="{x}" y="{first + 12 * i}">{escape(text)}</tspan>' for i, text in enumerate(stop["label"]))
    circle = f'<circle cx="{x}" cy="{y}" r="6"/><text>{label}</text>'
    target = step.page_about(name, direction)
    if here:
        return f'<g class="stop here" aria-current="location">{circle}</g>'
    if target is None or target == page or link is None:
        return f'<g class="stop">{circle}</g>'
    title = f"{stop['line'].capitalize()}: {stop['name']}"
    return f'<a class="stop" href="{escape(link(target))}" aria-label="{escape(title)}"><title>{escape(title)}</title>{circle}</a>'


def load(root):
    """The map of the book in a folder."""
    return Map(yaml.safe_load(Path(root, MAP).read_text(encoding="utf-8")))


def read_map(app):
    app.env.step_map = load(app.srcdir)


def take_out_picture(app, doctree):
    for image in list(doctree.findall(nodes.image)):
        if f"{Path(PICTURES).name}/" in image["uri"] and isinstance(image.parent, nodes.paragraph) and len(image.parent) == 1:
            image.parent.parent.remove(image.parent)


def check_pages(app, env):
    for page in sorted({*env.step_map.pages, *filter(None, [env.step_map.live])} - env.found_docs):
        log.warning("%s names a page that is not in the book: %s", MAP, page, type="book")


def add_map(app, doctree, docname):
    if app.builder.name != "html" or docname not in app.env.step_map.pages:
        return
    title = doctree.next_node(nodes.title)
    drawing = draw(app.env.step_map, docname, lambda page: app.builder.get_relative_uri(docname, page))
    title.parent.insert(title.parent.index(title) + 1, nodes.raw("", drawing, format="html"))


def page_numbers(pages):
    """{page: its number} for the pages of the step: that of its file, 20b where a 20a and a 20c stand around it."""
    found = {page: match[1] for page in pages if (match := re.match(r"book/step/0*([1-9]\d*[a-z]?)-", page))}
    taken = set(found.values())
    return {page: number + "b" * ({number + "a", number + "c"} <= taken) for page, number in found.items()}


def number_sidebar(app, pagename, templatename, context, doctree):
    """Put each page's number before its title in the list of pages."""
    generate = context.get("generate_toctree_html")
    if generate is None:
        return
    numbers = page_numbers(app.env.found_docs)

    def numbered(**options):  # by the keywords that the theme itself has used, in their order: then it has kept what it made
        soup = generate(**options)
        for link in soup.find_all("a", href=True) if options.get("kind") == "sidebar" and hasattr(soup, "find_all") else ():
            page = pagename if link["href"] == "#" else normpath(join(dirname(pagename), link["href"])).removesuffix(".html")
            if page in numbers:
                link.insert(0, f"{numbers[page]}\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}")
        return soup

    context["generate_toctree_html"] = numbered


def setup(app):
    app.connect("html-page-context", number_sidebar, priority=900)  # behind the theme
    app.connect("builder-inited", read_map)
    app.connect("doctree-read", take_out_picture, priority=100)  # before it is counted among the files to copy
    app.connect("env-check-consistency", check_pages)
    app.connect("doctree-resolved", add_map)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
