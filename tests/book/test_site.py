"""The site builds with warnings as errors, and has a page for every entry of the table of contents."""

import yaml


def pages_of(toc):
    """The documents that a table of contents names, without suffix, in order."""
    return [toc["root"], *(entry["file"] for entry in entries(toc))]


def entries(node):
    for part in node.get("parts", []):
        yield from entries(part)
    for entry in (*node.get("chapters", []), *node.get("sections", [])):
        if "file" in entry:
            yield entry
        yield from entries(entry)


def test_every_page_is_built(site, root):
    toc = yaml.safe_load((root / "_toc.yml").read_text())
    missing = [page for page in pages_of(toc) if not (site / f"{page}.html").is_file()]
    assert not missing


def test_toc_and_notebooks_agree(root):
    toc = yaml.safe_load((root / "_toc.yml").read_text())
    named = pages_of(toc)
    assert len(named) == len(set(named)), "a page stands twice in _toc.yml"
    notebooks = {
        path.relative_to(root).with_suffix("").as_posix()
        for path in (root / "book").rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    }
    assert notebooks - set(named) == set(), "not in _toc.yml"
    without_file = [page for page in named if not any((root / f"{page}{suffix}").is_file() for suffix in (".ipynb", ".md"))]
    assert not without_file, "in _toc.yml, but there is no such page"
