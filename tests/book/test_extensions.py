"""The book's Sphinx extensions, on a book of two pages: what they add, and what they refuse."""

import io
import json
import re
import shutil
import subprocess
import sys

import accessible
import pytest
import repository
from docutils import nodes
from fontTools.ttLib import TTFont
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, writes
from pypdf import PdfReader
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

SVG = "data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 9 9%22/%3E"
PICTURE = f'<div><img class="byhand-picture" alt="A square" src="{SVG}"></div>'
MAP = """
stops:
  encoder:
    embedding: {column: 0, label: [embed], name: embedding}
    attention: {column: 1, label: [self-, attention], name: self-attention}
  decoder:
    loss: {column: 2, label: [loss], name: loss}
memory: [attention, loss]
pages:
  page: {at: [attention], direction: forward}
  appendix/running: {at: [loss], direction: backward}
"""
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python", "pygments_lexer": "ipython3"}}
CONFIG = {
    "extensions": ["myst_nb", "repository", "accessible", "offline", "first_uses", "head", "pictures", "place", "proof", "reference"],
    "root_doc": "book/page",
    "html_theme": "sphinx_book_theme",
    "html_title": "A book",
    "nb_execution_mode": "off",
}


@pytest.fixture
def build(root, tmp_path, monkeypatch):
    """Build the small book; gives its folder and its warnings."""
    source = tmp_path / "source"
    (source / "book/appendix").mkdir(parents=True)
    (source / "book/map.yml").write_text(MAP)
    (source / "book/appendix/running.md").write_text("# Running\n\nHow to run <it>.\n")

    def build(html=PICTURE, repository="none", files=None, builder="html", **config):
        monkeypatch.setenv("BOOK_REPOSITORY_URL", repository)
        output = new_output("display_data", {"text/html": html, "text/plain": "a picture"})
        prose = new_markdown_cell("# A page\n\nThe first words.\n\n```{toctree}\nappendix/running\n```")
        cells = [prose, new_code_cell("x", outputs=[output], execution_count=1)]
        (source / "book/page.ipynb").write_text(writes(new_notebook(cells=cells, metadata=KERNEL)))
        for name, text in (files or {}).items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        warnings = io.StringIO()
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        with patch_docutils(), docutils_namespace():
            app = Sphinx(source, None, out, tmp_path / "doctrees", builder, {**CONFIG, **config}, status=None, warning=warnings, freshenv=True)
            app.build(force_all=True)
        return out, warnings.getvalue()

    return build


@pytest.mark.parametrize(
    "remote, expected",
    [
        ("https://github.com/someone/book.git", "https://github.com/someone/book"),
        ("https://someone:secret@github.com/someone/book", "https://github.com/someone/book"),
        ("git@github.com:someone/book.git", "https://github.com/someone/book"),
        ("ssh://git@gitlab.com:22/group/book.git/", "https://gitlab.com/group/book"),
        ("/srv/git/book.git", ""),
        ("C:\\books\\book", ""),
        ("", ""),
    ],
)
def test_address_of_a_remote(remote, expected):
    assert repository.web_url(remote) == expected


@pytest.mark.parametrize(
    "address, expected",
    [
        ("https://github.com/some/book", "https://mybinder.org/v2/gh/some/book/main?urlpath=lab/tree/book/x.ipynb"),
        ("https://gitlab.com/some/book", "https://mybinder.org/v2/gl/some%2Fbook/main?urlpath=lab/tree/book/x.ipynb"),
        ("https://git.example/b", "https://mybinder.org/v2/git/https%3A%2F%2Fgit.example%2Fb/main?urlpath=lab/tree/book/x.ipynb"),
    ],
)
def test_binder(address, expected):
    assert repository.binder_url(address, "main", "book/x") == expected


def test_buttons_of_a_fork(build):
    out, warnings = build(repository="git@github.com:Someone/fork.git")
    page = (out / "book/page.html").read_text()
    assert not warnings
    assert "https://mybinder.org/v2/gh/Someone/fork/main?urlpath=lab/tree/book/page.ipynb" in page
    assert "https://colab.research.google.com/github/Someone/fork/blob/gh-pages/colab/book/page.ipynb" in page
    assert 'href="appendix/running.html"' in page and "Your own machine" in page
    assert 'property="og:image" content="https://someone.github.io/fork/_static/preview.png"' in page
    assert "https://someone.github.io/fork/book/page.html" in (out / "sitemap.xml").read_text()
    assert "mybinder" not in (out / "book/appendix/running.html").read_text(), "not a notebook"
    assert (out / "colab/book/page.ipynb").is_file() and (out.parent / "source/book/page.ipynb").is_file(), "a button leads to a file that is not there"


def test_colab_gets_a_first_cell(build):
    out, _ = build(repository="https://github.com/someone/fork")
    cells = json.loads((out / "colab/book/page.ipynb").read_text())["cells"]
    assert "\"--branch=main\", 'https://github.com/someone/fork'" in cells[0]["source"] and cells[0]["source"].endswith('os.chdir(f"{book}/book")')
    assert [cell["cell_type"] for cell in cells] == ["code", "markdown", "code"]


def test_without_a_repository(build):
    out, warnings = build()
    page = (out / "book/page.html").read_text()
    assert not warnings
    assert "mybinder" not in page and "colab" not in page and "github" not in page
    assert "Your own machine" in page
    assert not (out / "sitemap.xml").exists() and not (out / "colab").exists()


def test_a_picture_becomes_a_file_with_a_link(build):
    out, _ = build()
    page = (out / "book/page.html").read_text()
    (file,) = (out / "_images").glob("*.svg")
    assert f'src="../_images/{file.name}"' in page
    assert f'href="../_images/{file.name}" download="page-1.svg"' in page
    assert "data:image/svg+xml" not in page and file.read_text().startswith("<svg xmlns=")


@pytest.mark.parametrize("tag", [f'<img src="{SVG}">', f'<img alt="" src="{SVG}">'])
def test_a_picture_without_alternative_text_is_refused(build, tag):
    assert "has no alternative text" in build(html=tag)[1]


def test_a_markdown_picture_without_alternative_text_is_refused(build):
    files = {"book/appendix/running.md": "# Running\n\n![](x.svg)\n", "book/appendix/x.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>"}
    assert "has no alternative text" in build(files=files)[1]


def test_map(build):
    out, _ = build()
    page, other = ((out / f"book/{name}.html").read_text() for name in ("page", "appendix/running"))
    assert '<nav class="step-map forward"' in page and "Forward, encoder: self-attention" in page
    assert '<nav class="step-map backward"' in other and 'aria-label="Encoder: self-attention"' in other
    assert 'href="../page.html"' in other and 'href="appendix/running.html"' in page


def test_the_map_leads_into_the_live_step(build):
    """At the stage of the page's first stop: its gradient on a backward page, unless the stop or the page names another."""
    stops = MAP.replace("name: self-attention}", "name: self-attention, live: layer.weights}").replace("name: loss}", "name: loss, live: [loss, d:z]}")
    live = f"live: appendix/running\n{stops}"
    for change, stage in (
        ("", "#at=layer.weights"), ("{at: [attention], direction: backward}", "#at=d%3Alayer.weights"), ("{at: [loss], direction: backward}", "#at=d%3Az"),
        ("{at: [], direction: update, note: x, live: w}", "#at=w"), ("{at: [embedding], direction: forward}", None),
    ):  # fmt: skip
        out, warnings = build(files={"book/map.yml": live.replace("page: {at: [attention], direction: forward}", f"page: {change}") if change else live})
        page = (out / "book/page.html").read_text()
        assert not warnings and ("its numbers, live" in page) == (stage is not None)
        assert stage is None or f'href="appendix/running.html{stage}"' in page
    assert "not in the book: book/gone" in build(files={"book/map.yml": live.replace("live: appendix/running", "live: gone")})[1]


def test_map_with_an_unknown_page_is_refused(build):
    assert "not in the book: book/gone" in build(files={"book/map.yml": MAP + "  gone: {at: [loss], direction: forward}\n"})[1]


@pytest.mark.parametrize("place", ["{at: [nowhere], direction: forward}", "{at: [loss], direction: sideways}"])
def test_map_with_an_unknown_stop_or_direction_is_refused(build, place):
    with pytest.raises(Exception, match="book/page: unknown stop or direction: (nowhere|sideways)"):
        build(files={"book/map.yml": MAP.replace("{at: [attention], direction: forward}", place)})


def test_reference_reads_the_source_without_importing_it(build):
    source = (
        '"""A room.\n\nMore."""\nimport not_installed\n\n\n'
        'def door(x: float, *, open=True) -> float:\n    """y = x\n\n    x   the way in\n    """\n\n\n'
        'def _hidden():\n    """No."""\n\n\n'
        'class Wall:\n    """A wall."""\n\n    def __init__(self, high=2):\n        pass\n\n'
        '    def paint(self, colour):\n        """Paint it."""\n'
    )
    page = "# Running\n\n```{reference} house\n```\n"
    out, warnings = build(files={"src/house/room.py": source, "src/house/__init__.py": "", "book/appendix/running.md": page})
    text = (out / "book/appendix/running.html").read_text()
    assert not warnings
    for anchor in ("house.room.door", "house.room.Wall", "house.room.Wall.paint"):
        assert f'id="{anchor}"' in text
    assert "A room." in text and "x   the way in" in text and "_hidden" not in text
    assert "house.room.door" in (out / "genindex.html").read_text()
    for line in (7, 18, 24):  # the function, the class, and its method
        assert f'href="../../_source/house/room.html#line-{line}"' in text
    source_page = (out / "_source/house/room.html").read_text()
    assert 'id="line-18"' in source_page and "not_installed" in source_page and "_hidden" in source_page


def test_reference_to_nothing_is_refused(build):
    _, warnings = build(files={"src/house/__init__.py": "", "book/appendix/running.md": "# Running\n\n```{reference} house\n```\n"})
    assert "house has nothing public to list" in warnings


def test_no_script_from_elsewhere_is_added(build):
    out, _ = build(extensions=[*CONFIG["extensions"], "sphinx_thebe"])
    assert "thebe" not in (out / "book/page.html").read_text().lower()


def test_first_uses_lead_to_the_glossary(build):
    glossary = "# Running\n\n```{glossary}\nattention\n  A mean.\n\nattention head\n  One of several.\n\nkey\n  A row.\n```\n"
    text = "# Attention\n\nAn `attention` and *attention*, attention heads, self-attention, a key, attention and attention.\n\n"
    glossary += "\n```{toctree}\nmore\n```\n"
    out, warnings = build(files={"book/appendix/running.md": glossary, "book/appendix/more.md": text})
    page = (out / "book/appendix/more.html").read_text()
    assert not warnings
    linked = re.findall(r'<a class="first-use[^"]*" href="running.html#(term-[\w-]+)">([^<]*)</a>', page)
    assert linked == [("term-attention-head", "attention head"), ("term-attention", "attention")]


def test_a_link_leads_to_a_glossary_term(build):
    glossary = "# Running\n\n```{glossary}\nattention head\n  One of several.\n```\n\nSee [a head](running.md#term-attention-head).\n"
    out, warnings = build(files={"book/appendix/running.md": glossary})
    assert not warnings
    assert 'href="#term-attention-head"' in (out / "book/appendix/running.html").read_text()
    assert "local id not found" in build(files={"book/appendix/running.md": glossary.replace("running.md#term-attention-head", "running.md#term-no")})[1]


def test_the_picture_of_the_map_gives_way_to_the_map(build):
    files = {"book/appendix/running.md": "# Running\n\n![Place](../maps/x.svg)\n\nHow.\n", "book/maps/x.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>"}
    out, warnings = build(files=files)
    page = (out / "book/appendix/running.html").read_text()
    assert not warnings and 'class="step-map' in page
    assert "x.svg" not in page and not (out / "_images/x.svg").exists()


def test_the_proof_is_one_closed_block_under_its_heading(build):
    page = "# Running\n\n## A step\n\nText.\n\n(proof)=\n## Proof\n\nFirst.\n\n### Derived\n\nSecond.\n"
    out, warnings = build(files={"book/appendix/running.md": page})
    html = (out / "book/appendix/running.html").read_text()
    assert not warnings
    block = re.search(r'<section id="proof">(.*?)</section>\s*</section>', html, re.S)[1]
    assert re.match(r'\s*(<span id="[^"]*"></span>)?\s*<details class="proof"><summary><h2>Proof<.*?</h2>\s*</summary>', block, re.S)
    assert "First." in block and block.index("</summary>") < block.index("First.") < block.index("Second.") < block.index("</details>")
    assert " open" not in re.search(r"<details[^>]*>", block)[0]
    assert "Text." not in block


def test_the_page_can_be_edited_where_the_repository_is_known(build):
    out, _ = build(repository="https://github.com/Someone/fork")
    assert "https://github.com/Someone/fork/edit/main/book/page.ipynb" in (out / "book/page.html").read_text()
    assert "/edit/" not in build()[0].joinpath("book/page.html").read_text()


def test_pages_load_only_what_they_use(build):
    out, warnings = build(extensions=[*CONFIG["extensions"], "light"])
    page = (out / "book/page.html").read_text()
    assert not warnings
    assert "fontawesome.js" not in page and "searchindex.js" not in page and "searchtools.js" not in page and "_static/icons.css" in page
    rules = (out / "_static/icons.css").read_text()
    (file,) = re.findall(r"url\((icons-900\.woff)\)", rules)
    shown = set(TTFont(out / "_static" / file).getBestCmap())
    assert {0xF002, 0xF185, 0xF186, 0xF0C9} < shown and len(shown) < 60, "a lens, a sun, a moon, a list; not the whole font"
    assert 0xF1B0 not in shown, "no paw"
    assert '<nav aria-label="Home">' in page


def test_empty_corners_of_tables_are_no_headers(build):
    out, _ = build(html='<table><thead><tr><th scope="col" style="color:red"></th><th scope="col">x</th></tr></thead></table>')
    page = (out / "book/page.html").read_text()
    assert '<td style="color:red"></td><th scope="col">x</th>' in page


def test_bibliography_has_no_roles_that_are_out_of_use(build):
    context = {"body": '<div role="list" class="citation-list"><div class="citation" id="x" role="doc-biblioentry">x</div></div>'}
    accessible.mend_body(None, "page", "page.html", context, nodes.paragraph("", "", nodes.citation()))
    assert context["body"] == '<div class="citation-list"><div class="citation" id="x">x</div></div>'


MOVED = "old: page\nold#there: appendix/running#here\ndeep/er: appendix/running\npage#section: appendix/running#its-place\n"


def test_old_addresses_lead_on_and_keep_their_anchors(build, chromium):
    out, warnings = build(extensions=[*CONFIG["extensions"], "moved"], files={"book/moved.yml": MOVED})
    assert not warnings
    tab = chromium.new_page()
    leads = {"old": "page", "old#part": "page#part", "old#there": "appendix/running#here", "deep/er#x": "appendix/running#x"}
    for old, new in {**leads, "page#section": "appendix/running#its-place", "page#part": "page#part"}.items():
        name, _, anchor = old.partition("#")
        target, _, part = new.partition("#")
        tab.goto((out / f"book/{name}.html").as_uri() + (anchor and f"#{anchor}"))
        tab.wait_for_url((out / f"book/{target}.html").as_uri() + (part and f"#{part}"))
    tab.close()


@pytest.mark.parametrize(
    "line, complaint",
    [("page: appendix/running", "page is a page of the book"), ("a: gone", "not in the book"), ("b#x: page", "has no line")],
)
def test_old_addresses_that_lead_nowhere_are_refused(build, line, complaint):
    assert complaint in build(extensions=[*CONFIG["extensions"], "moved"], files={"book/moved.yml": line})[1]


def test_search_knows_sections_terms_and_functions(build):
    glossary = "# Running\n\nOne $x$.\n\n## A part\n\n```python\ncode()\n```\n\n"
    glossary += "```{glossary}\nRoPE\nrotary embedding\n  Turned. → [there](../page.ipynb)\n```\n"
    glossary += "\n```{reference} house\n```\n"
    files = {"book/appendix/running.md": glossary, "src/house/room.py": '"""A room."""\n\n\ndef door():\n    """Opens."""\n'}
    out, warnings = build(extensions=[*CONFIG["extensions"], "light", "search"], files=files, myst_enable_extensions=["dollarmath"])
    assert not warnings
    text = (out / "_static/search-index.js").read_text()
    page, running = json.loads(text[text.index("[") : -2])
    assert page["page"] == "book/page" and page["entries"][0]["text"] == "The first words."
    entries = {entry["title"]: entry for entry in running["entries"]}
    assert entries["Running"]["text"] == "One x." and entries["A part"]["code"] == "code()" and entries["A part"]["anchor"] == "a-part"
    assert entries["RoPE"]["names"] == ["RoPE", "rotary embedding"] and entries["RoPE"]["pages"] == ["book/page"]
    assert entries["door"]["anchor"] == "house.room.door" and entries["door"]["text"] == "Opens."
    assert not (out / "searchindex.js").exists() and "search-index.js" in (out / "search.html").read_text()


EXERCISE = """# Running

A step.

## Your turn

One way to write it:
"""


def test_the_book_is_printed(build, root, tmp_path, chromium):
    """Answers at the end, with the page they are on; a pointer where something is folded; contents; the reference left out; or one page."""
    answer = new_code_cell("answer = 42", metadata={"tags": ["hide-cell"]}, outputs=[new_output("stream", text="Right.")], execution_count=1)
    fold = {"tags": ["hide-output"], "mystnb": {"code_prompt_show": "Show the rest"}}
    more = new_code_cell("1", metadata=fold, outputs=[new_output("stream", text="secret")], execution_count=2)
    exercise = writes(new_notebook(cells=[new_markdown_cell(EXERCISE), answer, new_markdown_cell("## More\n\nMore text."), more], metadata=KERNEL))
    files = {
        "book/appendix/exercise.ipynb": exercise,
        "book/appendix/reference/index.md": "# Reference\n\nFor looking up.\n",
        "book/appendix/running.md": "# Running\n\n```{toctree}\nexercise\nreference/index\n```\n",
    }
    out, warnings = build(builder="singlehtml", files=files)
    assert not warnings

    def printed(*pages):
        command = [sys.executable, root / "book/_tools/print_pdf.py", out, tmp_path / "book.pdf", *pages]
        subprocess.run(command, check=True, capture_output=True)
        return PdfReader(tmp_path / "book.pdf")

    pdf = printed()
    assert "/StructTreeRoot" in pdf.trailer["/Root"], "not tagged for screen readers"
    pages = [page.extract_text() for page in pdf.pages]
    text = "\n".join(pages)
    last = len(pages)
    assert f"Answers {last}" in " ".join(pages[0].split()) and "Contents" in pages[0]
    assert f"Answer 1, page {last}" in text and "answer = 42" in pages[-1] and "answer = 42" not in "".join(pages[:-1]) and "Right." in pages[-1]
    assert "On the site and in the notebook: the rest" in text and "secret" not in text
    assert "For looking up" not in text
    one = "".join(page.extract_text() for page in printed("book/appendix/exercise.ipynb").pages)
    assert "A step." in one and "answer = 42" in one and "The first words" not in one
