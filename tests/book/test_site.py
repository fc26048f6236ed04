"""The built site as files: a page for every entry, links that lead somewhere, and nothing that is loaded from elsewhere."""

import gzip
import re
from collections import defaultdict
from html.parser import HTMLParser
from statistics import median
from urllib.parse import unquote, urldefrag, urlparse

import pytest
import toc
import yaml


class Page(HTMLParser):
    """The anchors of an HTML page, where it links to, and what it loads."""

    LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        if tag == "a" and attributes.get("href"):
            self.links.add(attributes["href"])
        address = attributes.get(self.LOADED.get(tag, ""))
        if address and attributes.get("rel") not in ("canonical", "search", "index", "next", "prev"):
            self.loaded.add(address)


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_page_is_built(site):
    missing = [page for page in toc.pages() if not (site / f"{page}.html").is_file()]
    assert not missing


def test_toc_and_files_agree(root):
    named = toc.pages()
    assert len(named) == len(set(named)), "a page stands twice in _toc.yml"
    files = {path.relative_to(root).with_suffix("").as_posix() for path in (root / "book").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts}
    assert not files - set(named), "not in _toc.yml"
    assert not [page for page in named if toc.source(page) is None], "in _toc.yml, but there is no such page"


def test_links_and_anchors_lead_somewhere(pages, site):
    dead = defaultdict(list)
    for path, page in pages.items():
        for link in page.links:
            address, anchor = urldefrag(link)
            if urlparse(address).scheme:
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            known = pages.get(target)
            state = "=" in anchor and target.name == "00-live.html"  # tests/book/test_live.py looks at these
            if not target.exists() or (anchor and known and not state and unquote(anchor) not in known.anchors):
                dead[path.relative_to(site).as_posix()].append(link)
    assert not dead


def test_what_moved_is_where_its_old_address_leads(pages, site, root):
    """Each anchor of book/moved.yml that is led to is there, and one of a page that stayed has left it."""
    lost = []
    for old, new in yaml.safe_load((root / "book/moved.yml").read_text(encoding="utf-8")).items():
        page, _, anchor = new.partition("#")
        left, _, section = old.partition("#")
        if anchor and anchor not in pages[site / f"book/{page}.html"].anchors or section and section in pages[site / f"book/{left}.html"].anchors:
            lost.append(f"{old}: {new}")
    assert not lost


def test_nothing_is_loaded_from_elsewhere(pages, site):
    outside = {address for page in pages.values() for address in page.loaded if re.match(r"(https?:)?//", address)}
    for path in site.rglob("*.css"):
        outside |= set(re.findall(r"""(?:url\(|@import\s)["']?((?:https?:)?//[^"')]+)""", path.read_text(encoding="utf-8")))
    assert not outside


def test_no_address_of_a_content_network_is_left(pages):
    named = {path.name for path in pages if re.search(r"cdn\.jsdelivr|unpkg\.com|cdnjs|googleapis", path.read_text(encoding="utf-8"))}
    assert not named


def test_licences_of_what_is_bundled_are_kept(root):
    vendor = root / "book/_static/vendor"
    assert all((folder / "LICENSE").is_file() for folder in vendor.iterdir())


def test_pages_are_light(pages, site):
    """What a page adds to the assets that all pages share, as a server sends it: 300 kB at most for the median page."""

    def packed(file):
        return len(gzip.compress(file.read_bytes()))

    weights = []
    for path, page in pages.items():
        own = {(path.parent / unquote(address)).resolve() for address in page.loaded if "_static/" not in address and ":" not in address}
        weights.append(packed(path) + sum(map(packed, own)))
    assert median(weights) <= 300_000


def test_no_page_is_heavy_at_its_first_visit(pages, site):
    """Everything that a page loads, with an empty cache and without compression: 3.4 MB at most."""
    fonts = sum(file.stat().st_size for file in (site / "_static").glob("icons-*.woff"))
    heavy = {}
    for path in [site / f"{page}.html" for page in toc.pages()]:
        page = pages[path]
        own = {(path.parent / unquote(address).partition("?")[0]).resolve() for address in page.loaded if ":" not in address}
        weight = path.stat().st_size + sum(file.stat().st_size for file in own) + fonts
        if weight > 3_400_000:
            heavy[path.relative_to(site).as_posix()] = weight
    assert not heavy


def test_each_page_describes_itself(pages, site):
    for page in toc.pages():
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        for name in ('property="og:title"', 'property="og:description"', 'name="description"', 'name="twitter:card"', 'rel="icon"'):
            assert name in text, f"{page}: {name}"


def test_every_page_of_the_step_is_on_the_map(root):
    placed = yaml.safe_load((root / "book/map.yml").read_text(encoding="utf-8"))
    step = [page.removeprefix("book/") for page in toc.pages() if page.startswith("book/step/")]
    assert not [page for page in step if page not in (*placed["pages"], placed["live"])], "not in book/map.yml"


def test_pages_of_the_step_are_numbered_in_the_list_of_pages(site):
    page = (site / "book/step/07-add-and-norm.html").read_text(encoding="utf-8")
    numbers = re.findall(r"<a[^>]*>\s*(\d+[a-z]?)\xa0\xa0", page)
    assert numbers[:3] == ["1", "2", "3"] and {"7", "13a", "20a", "20b", "20c", "29"} <= set(numbers) and "0" not in numbers
