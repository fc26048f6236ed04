"""Pages that run where they are read: the stored outputs come out of the page's own Python, and nothing a reader types does harm."""

import hashlib
import json
import re
import time

import nbformat
import pytest
import run  # book/_ext
import toc
from browser import PATIENCE
from test_pages import STICKING_OUT, violations

PICTURE = re.compile(r'<img class="byhand-picture[^>]*>')
RANDOM = "nbval-ignore-output"  # cells whose output differs from run to run
SAMPLE = {"book/step/06-attention": "attention", "book/step/13a-forward-sheet": "sheet"}
IDLE = "() => byhandRun.state().ready && byhandRun.state().running === null && !byhandRun.state().waiting"

OPEN = """(i) => {
    const cell = byhandRun.cells[i];
    for (let folded = cell.box.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
    cell.box.querySelectorAll("details").forEach((folded) => { folded.open = true; });
    if (cell.edit && !cell.field) cell.edit.click();
}"""


# ---- what is packed ------------------------------------------------------------------------------


def test_what_is_vendored_is_unchanged(root):
    """Every file has the sum in the table, and every wheel the one that Pyodide's own list names."""
    text = (run.VENDOR / "README.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$", text, re.M))
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in run.VENDOR.iterdir() if not file.name.startswith(("README", "LICENSE"))}
    assert said == files
    listed = json.loads((run.VENDOR / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"].values()
    sums = {entry["file_name"]: entry["sha256"] for entry in listed}
    assert all(files[name] == sums[name] for name in files if name.endswith(".whl"))
    assert sum(file.stat().st_size for file in run.VENDOR.iterdir()) < 30e6


def test_packing_gives_the_same_bytes_again():
    assert run.packed(run.module_files("byhand")) == run.packed(run.module_files("byhand"))


def test_what_pages_read_beside_themselves_is_packed(root):
    beside = {file.relative_to(root).as_posix() for page in toc.pages() for file in (root / page).parent.glob("*.py") if file.name != "conftest.py"}
    beside |= {"book/_tools/ledger/kill_matrix.json", "book/appendix/equivalent.yml"}
    assert "book/workshop/my_gpt.py" in beside and beside <= {name for name, _ in run.found(run.FILES, root)}


def test_weight(site, root):
    """All pages share one copy; a page that is only read loads the control alone."""
    assert sum(file.stat().st_size for file in (site / "_static/run").iterdir()) < 36e6
    assert sum((root / "book/_static/run" / name).stat().st_size for name in ("run.js", "run.css")) < 60_000
    for name in toc.pages():
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        assert ("run/run.js" in text) == ("cell_input" in text), name
        assert not re.search(r'src="[^"]*_static/run/(?!run\.js)', text), f"{name} loads Python unasked"


# ---- a page in the browser -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def visit(chromium, served, site):
    """Opens a page in a tab that notes what goes wrong and what it asks for from elsewhere."""
    contexts = []

    def visit(name, by="file", before="", **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, "color_scheme": "light", **options})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.wrong, page.loaded = [], []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("dialog", lambda dialog: page.wrong.append(f"a dialog: {dialog.message}"))
        start = f"{served}/" if by == "http" else site.as_uri() + "/"
        page.on("request", lambda request: (page.loaded if request.url.startswith((start, "data:", "blob:")) else page.wrong).append(request.url))
        if before:
            page.add_init_script(before)
        page.goto(f"{start}{name}.html", wait_until="load")
        return page

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def attention(visit):
    """The page on attention, opened from its folder, with Python ready."""
    page = visit("book/step/06-attention")
    assert not [address for address in page.loaded if re.search(r"_static/run/(?!run\.)", address)], "Python was loaded unasked"
    page.get_by_role("button", name="Run this page, here").click()
    page.wait_for_function(IDLE)
    yield page
    assert not page.wrong


@pytest.fixture(scope="module")
def sheet(visit):
    """The page of the forward sheet, from a server, with Python ready."""
    page = visit("book/step/13a-forward-sheet", by="http")
    page.get_by_role("button", name="Run this page, here").click()
    page.wait_for_function(IDLE)
    return page


def run_all(page):
    page.get_by_role("button", name="Run all").click()
    page.wait_for_function(IDLE)


def normal(outputs):
    """Outputs as they are compared: neighbouring text joined, pictures and run counts aside."""
    found = []
    for output in outputs:
        if output["output_type"] == "stream":
            if found and found[-1][0] == output["name"]:
                found[-1][1] += output["text"]
            else:
                found.append([output["name"], output["text"]])
        else:
            data = output.get("data") or output
            found.append([output["output_type"], {kind: PICTURE.sub("", text) for kind, text in data.items() if isinstance(text, str)}])
    return found


def compared(page, root, name):
    """For each cell: "same", "differs", "random", or why it did not run."""
    notebook = nbformat.read(root / f"{name}.ipynb", as_version=4)
    stored = [cell for cell in notebook.cells if cell.cell_type == "code"]
    here = page.evaluate("byhandRun.cells.map((cell) => ({source: cell.source, outputs: cell.outputs ?? [], status: cell.status ?? {}}))")
    assert [cell.source for cell in stored] == [cell["source"] for cell in here]
    words = []
    for cell, mine in zip(stored, here, strict=True):
        if mine["status"].get("status") != "ok":
            words.append(mine["status"].get("library") or "failed")
        elif normal(cell.outputs) == normal(mine["outputs"]):
            words.append("same")
        else:
            words.append("random" if RANDOM in cell.metadata.get("tags", []) else "differs")
    return words


def type_into(page, i, code):
    """Write code into a cell and run it; its output as text."""
    page.evaluate(OPEN, i)
    page.get_by_role("textbox", name=f"Code of cell {i + 1}", exact=True).fill(code)
    page.get_by_role("button", name=f"Run: cell {i + 1}", exact=True).click()


def said(page, i):
    page.wait_for_function(IDLE)
    return page.evaluate("(i) => byhandRun.cells[i].output?.innerText ?? ''", i)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_page_gives_its_stored_outputs(request, root, name):
    """Byte for byte, pictures aside, from a folder and from a server; what needs PyTorch says so."""
    page = request.getfixturevalue(SAMPLE[name])
    run_all(page)
    words = compared(page, root, name)
    assert set(words) <= {"same", "torch"} and words.count("same") >= 0.85 * len(words)
    assert not page.wrong
    if "torch" in words:
        note = page.evaluate("(i) => byhandRun.cells[i].output.querySelector('.run-note')?.textContent", words.index("torch"))
        assert note.startswith("This cell needs PyTorch, which does not run in the page; its stored output stands. It runs in JupyterLab: Your own machine")


@pytest.mark.slow
def test_nine_of_ten_cells_run_in_their_pages(visit, root):
    """All pages: of the cells that need no PyTorch, nine of ten give their stored outputs, byte for byte but for pictures."""
    counts, differing = {}, []
    for i, name in enumerate(page for page in toc.pages() if (root / f"{page}.ipynb").is_file()):
        page = visit(name, by=("file", "http")[i % 2])
        page.get_by_role("button", name="Run this page, here").click()
        run_all(page)
        while page.evaluate("byhandRun.cells.some((cell) => cell.state === 'new')"):  # an error ends the row
            page.evaluate("byhandRun.run(...byhandRun.cells.filter((cell) => cell.state === 'new'))")
            page.wait_for_function(IDLE)
        words = compared(page, root, name)
        differing += [f"{name} cell {k}: {word}" for k, word in enumerate(words) if word not in ("same", "random", "torch")]
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        assert not page.wrong
        page.context.close()
    print(counts, *differing, sep="\n")
    needs_none = sum(counts.values()) - counts.get("torch", 0)
    assert counts["same"] + counts.get("random", 0) >= 0.9 * needs_none, differing
    assert needs_none >= 0.8 * sum(counts.values())


# ---- exercises -----------------------------------------------------------------------------------

RIGHT = """
def my_attention(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v
"""


def test_an_exercise_is_answered_in_the_page(attention):
    """With the verdict of `attempt`; the cells above are run by themselves."""
    page = attention
    (i,) = page.evaluate("byhandRun.cells.filter((cell) => cell.exercise).map((cell) => cell.i)")
    printed = page.evaluate("(i) => byhandRun.cells[i].printed", i)
    empty = re.search(r"def my_attention.*?# your code\n", printed, re.S)[0]
    for answer, verdict in (
        (empty, "my_attention returns nothing yet"),
        (RIGHT, "Right: every entry agrees"),
        (RIGHT.replace(" / np.sqrt(q.shape[-1])", ""), "Not yet: this is what comes out when 1/√d_k is forgotten."),
        ("class Equal:\n    def __eq__(self, other):\n        return True\n\n\ndef my_attention(q, k, v):\n    return Equal()\n", "Not yet"),
        ("def my_attention(q, k, v):\n    return q.nothing\n", "Not yet: AttributeError in your line `return q.nothing`"),
    ):
        type_into(page, i, printed.replace(empty, answer))
        assert said(page, i).startswith(verdict)
    assert page.evaluate("(i) => byhandRun.cells[i].output.getAttribute('aria-live')", i) == "polite"


@pytest.mark.slow
def test_exercises_can_be_solved_in_their_pages(visit, root):
    """On each page with one that needs no PyTorch: the book's own answer, typed into the field after a first try, is right."""
    solved, refused = [], {}
    for name in (page for page in toc.pages() if (root / f"{page}.ipynb").is_file()):
        page = visit(name)
        found = page.evaluate("byhandRun.cells.filter((cell) => cell.exercise && /# your code/.test(cell.printed)).map((cell) => cell.i)")
        if found:
            page.get_by_role("button", name="Answer it here").first.click()
            page.wait_for_function(IDLE)
            page.get_by_role("button", name=f"Run: cell {found[0] + 1}", exact=True).click()  # as printed: it imports `attempt`
            said(page, found[0])
            type_into(page, found[0], page.evaluate("(i) => byhandRun.cells[i + 1].printed", found[0]))
            words = said(page, found[0])
            solved.append(name) if words.startswith("Right") else refused.update({name: words})
        assert not page.wrong
        page.context.close()
    assert len(solved) >= 25 and all("PyTorch" in words for words in refused.values()), refused


@pytest.mark.slow
def test_ten_times_in_a_row(visit):
    """A tab that is loaded again and again does not run out of memory."""
    page = visit("book/step/13a-forward-sheet")
    for _ in range(10):
        page.reload(wait_until="load")
        page.get_by_role("button", name="Run this page, here").click()
        page.wait_for_function(IDLE)
        run_all(page)
        run_all(page)
        assert page.evaluate("byhandRun.cells[0].status.status") == "ok"


# ---- Python that misbehaves ----------------------------------------------------------------------

MISCHIEF = {
    "1 / 0": "ZeroDivisionError: division by zero",
    "def (": "SyntaxError",
    "raise SystemExit": "SystemExit",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "def f():\n    return f()\nf()": "RecursionError",
    "input('?')": "Error",
    "import nothing_of_that_name": "This cell needs nothing_of_that_name, which does not run in the page",
    "import js\nawait_me = js.fetch('https://example.org/')\nprint('asked')": "asked",
    "from pyodide.http import open_url\nopen_url('https://example.org/')": "Error",
    "import sys\nsys.stdout = sys.stderr = None\n1 + 1": "2",
    "print(1, end='')\nprint(2)": "12",
    "'<b onclick=alert(1)>bold</b><script>alert(1)</script>'": "<b onclick=alert(1)>bold</b><script>alert(1)</script>",
}


def test_errors_are_said_and_the_page_lives(attention):
    page = attention
    for code, words in MISCHIEF.items():
        type_into(page, 0, code)
        assert words in said(page, 0), code
    type_into(page, 0, "print('x' * 3_000_000)")
    assert "… and 2,800,001 characters more, which are not shown." in said(page, 0)
    assert len(said(page, 0)) < 300_000
    type_into(page, 0, "np = 3\nworked = None\ncompile = eval = exec = None")
    said(page, 0)
    page.get_by_role("button", name="All as printed").click()
    run_all(page)
    assert page.evaluate("byhandRun.cells.filter((cell) => cell.status.status === 'error').length") == 0


def test_html_of_an_output_brings_no_script_and_no_address(attention):
    page = attention
    evil = (
        "class Evil:\n    def _repr_html_(self):\n        return '''<p id=evil onclick='alert(1)' style='background:url(https://example.org/a)'>text</p>"
        "<script>alert(2)</script><img src=https://example.org/b onerror=alert(3)><iframe src=https://example.org/c></iframe>"
        "<a href='javascript:alert(4)'>link</a><svg><image href='https://example.org/d'/></svg><style>@import 'https://example.org/e'</style>"
        "<form action=https://example.org/f><button>x</button></form><object data=https://example.org/g></object>'''\nEvil()"
    )
    type_into(page, 0, evil)
    assert "text" in said(page, 0)
    left = page.evaluate("byhandRun.cells[0].output.innerHTML")
    assert not re.search(r"example\.org|alert|onclick|javascript", left)
    page.evaluate("byhandRun.cells[0].output.querySelectorAll('a, p, button').forEach((e) => e.click())")
    assert not page.wrong


@pytest.mark.parametrize("code", ["while True:\n    pass", "import time\ntime.sleep(600)", "while True:\n    print('again')"])
def test_stop_ends_what_does_not_end(attention, code):
    page = attention
    type_into(page, 0, code)
    page.wait_for_function("() => byhandRun.state().running === 0")
    before = time.monotonic()
    page.get_by_role("button", name="Stop").click()
    state = page.locator(".run-state")
    assert "the names that the cells had set are lost" in state.inner_text()
    assert time.monotonic() - before < 60  # against hanging; it takes a blink
    type_into(page, 0, "'np' in globals(), 6 * 7")
    assert said(page, 0) == "(False, 42)"


# ---- what is kept, and what a stranger could have put there --------------------------------------


def test_edits_survive_a_reload_and_run_only_when_asked(sheet):
    page = sheet
    type_into(page, 0, "'<img src=x onerror=alert(1)>'")
    assert said(page, 0) == "'<img src=x onerror=alert(1)>'"
    (key,) = page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('byhand-run'))")
    assert "book/step/13a-forward-sheet" in key and re.search(r"\d+\.\d+\.\d+", key)
    page.reload(wait_until="load")
    entry = page.locator(".run-entry")
    assert "A cell was edited here before; nothing of it runs until you say so." in entry.inner_text()
    assert page.locator("textarea").count() == 0 and not page.evaluate("byhandRun.state().ready")
    page.evaluate("(key) => localStorage.setItem(key, JSON.stringify({printed: 'another', edited: 'x'}))", key)
    page.evaluate("(key) => localStorage.setItem(key.replace(/0$/, '1'), '<script>alert(1)</script>')", key)
    page.reload(wait_until="load")
    assert "edited here before" not in entry.inner_text(), "an edit of another printing was taken"
    assert not page.wrong


@pytest.mark.parametrize(
    "before",
    [
        "const own = localStorage; Object.defineProperty(window, 'localStorage', {get() {"
        " if (new Error().stack.includes('run.js')) throw new DOMException('no', 'SecurityError'); return own; }})",
        "const own = Storage.prototype.setItem; Storage.prototype.setItem = function (...what) {"
        " if (new Error().stack.includes('run.js')) throw new DOMException('full', 'QuotaExceededError'); own.apply(this, what); }",
    ],
    ids=["forbidden", "full"],
)
def test_without_storage_edits_last_until_the_page_is_left(visit, before):
    page = visit("book/step/13a-forward-sheet", by="http", before=before)
    page.route("**/_static/run/python.*", lambda route: route.abort())  # Python itself is not needed here
    page.get_by_role("button", name="Run this page, here").click()
    page.evaluate(OPEN, 0)
    page.get_by_role("textbox", name="Code of cell 1", exact=True).fill("1 + 1")
    page.wait_for_function("() => document.querySelector('.run-state').textContent.includes('keeps no edits')")
    assert not page.wrong


@pytest.mark.parametrize("lost, word", [("WebAssembly", "WebAssembly"), ("Worker", "workers"), ("DecompressionStream", "unpacking")])
def test_a_browser_that_lacks_something_reads_on(visit, lost, word):
    page = visit("book/step/13a-forward-sheet", before=f"delete window.{lost}")
    assert page.locator(".run-entry").inner_text().startswith(f"This page cannot run here: the browser has no {word}")
    assert page.get_by_role("button", name="Run this page, here").count() == 0 and not page.wrong


def test_a_bundle_that_cannot_be_loaded_is_said(visit):
    page = visit("book/step/13a-forward-sheet", by="http")
    page.route("**/_static/run/numpy.*", lambda route: route.abort())
    page.get_by_role("button", name="Run this page, here").click()
    page.wait_for_function("() => document.querySelector('.run-state').textContent.includes('could not be loaded')")
    assert page.locator("article h1").is_visible()


# ---- for every reader ----------------------------------------------------------------------------


def test_keys_of_the_field(attention):
    """Python's indentation; Escape lets Tab leave."""
    page = attention
    type_into(page, 0, "")
    field = page.get_by_role("textbox", name="Code of cell 1", exact=True)
    field.fill("")
    field.focus()
    for key in ("d", "e", "f", "Space", "f", "(", ")", ":", "Enter", "x", "Enter", "Tab", "y", "Enter", "Backspace", "Backspace"):
        page.keyboard.press(key)
    assert field.input_value() == "def f():\n    x\n        y\n"
    page.keyboard.press("Shift+Tab")
    field.fill("a\nb")
    field.select_text()
    page.keyboard.press("Tab")
    assert field.input_value() == "    a\n    b"
    page.keyboard.press("Shift+Tab")
    assert field.input_value() == "a\nb"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert not field.evaluate("field => field === document.activeElement")
    field.fill("6 * 7")
    field.press("Shift+Enter")
    assert said(page, 0) == "42"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_looks(attention, theme):
    page = attention
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert not page.evaluate(STICKING_OUT)
        assert all(box["height"] >= 24 for box in (b.bounding_box() for b in page.locator(".run-bar button").all()))
    assert not violations(page, {"include": [[".run-bar"], [".run-tools"], [".run-field"]]})
    page.emulate_media(media="print")
    assert not [e for e in page.locator(".run-bar, .run-tools, .run-entry").all() if e.is_visible()]
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 800})
