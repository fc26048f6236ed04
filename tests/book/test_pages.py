"""Every page in a real browser, in both themes, on a wide screen and on a phone; nothing may come from elsewhere."""

import contextlib
import re

import pytest
import toc
from axe_playwright_python.sync_playwright import Axe
from browser import PATIENCE, typeset
from playwright.sync_api import TimeoutError

PAGES = [*toc.pages(), "search"]
SIZES = {1280: 900, 390: 844}

RAW_LATEX = r"""() => {
    const walk = document.createTreeWalker(document.querySelector("article") ?? document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walk.nextNode()) {
        const node = walk.currentNode;
        if (node.parentElement.closest("pre, code, script, style, mjx-container, svg")) continue;
        const raw = /\$\$|\\[(\[]|\\(begin|end|frac|sum|sqrt|text|math\w+|left|right|cdot|times|partial)\b/;
        if (raw.test(node.data)) found.push(node.data.trim().slice(0, 80));
    }
    return found;
}"""
MATHS_ERRORS = """() => [...document.querySelectorAll(
    'mjx-container :is([data-mml-node="merror"], [data-mjx-error], [fill="red"], [stroke="red"])')]
    .map((e) => e.closest("mjx-container").textContent.slice(0, 80))"""
NOT_TYPESET = """() => [...document.querySelectorAll("article .math")]
    .filter(e => !e.querySelector("mjx-container") && !e.closest("mjx-container")).map(e => e.textContent.trim().slice(0, 80))"""
BROKEN_IMAGES = "() => [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.currentSrc.slice(0, 120))"
NO_ALT = "() => [...document.querySelectorAll('article img')].filter(i => !i.alt.trim()).map(i => i.currentSrc.slice(0, 120))"
STICKING_OUT = """() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const inBox = (e) => e && e !== document.body && (getComputedStyle(e).overflowX !== "visible" || inBox(e.parentElement));
    return [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > width + 1 && !inBox(e.parentElement))
        .slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).concat("the page scrolls sideways");
}"""

OUT_OF_REACH = """() => [...document.querySelectorAll("main *")]
    .filter((e) => e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX) && e.clientWidth)
    .filter((e) => e.tabIndex < 0 && !e.querySelector("a, button, input, [tabindex='0']")).map((e) => e.outerHTML.slice(0, 120))"""
# Formulas, tables and pictures of which a part is out of sight: "cut" where nothing leads there or no edge says so, otherwise "scrolled".
CUT = """() => [...document.querySelectorAll("article :is(mjx-container > svg, table, img.byhand-picture)")]
    .filter((e) => e.checkVisibility() && !e.closest("pre, .spoken")).flatMap((e) => {
        const found = [];
        for (let box = e.parentElement; box.tagName !== "ARTICLE"; box = box.parentElement) {
            const overflow = getComputedStyle(box).overflowX;
            if (overflow === "visible" || box.scrollWidth <= box.clientWidth + 2 || !box.clientWidth) continue;
            const reached = /auto|scroll/.test(overflow) && box.tabIndex >= 0 && box.classList.contains("goes-on");
            found.push(`${reached ? "scrolled" : "cut"}: ${(e.closest(".math")?.dataset.tex ?? e.alt ?? e.textContent).trim().slice(0, 80)}`);
        }
        return found;
    })"""
LINES_CUT = """() => [...document.querySelectorAll("article pre")]
    .filter((e) => e.scrollWidth > e.clientWidth + 2 && e.clientWidth).map((e) => e.textContent.trim().slice(0, 80))"""
STEP, STACK = ([page for page in toc.pages() if page.startswith(f"book/{part}/")] for part in ("step", "stack"))
WALK = [page for page in STEP if not page.endswith("00-live")]  # the live step is one screen by itself
SCREEN = 800  # the height of one, at 1280 wide
LENGTH = {"step": "document.querySelector('article').getBoundingClientRect().height", "stack": "document.documentElement.scrollHeight"}
FIRST_FIGURE = """() => Math.min(...[...document.querySelectorAll("article :is(.cell_output img, .cell_output .math, .byhand-experiment, .byhand-sheet)")]
    .filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect().top + scrollY))"""
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# Formulas and code have thousands of nodes, which axe-core takes a minute to walk; one page is looked at whole below.
WITHOUT_INSIDES = """() => document.querySelectorAll("mjx-container, pre, .sig").forEach((e) => e.replaceChildren("x"))"""
AXE_ARTICLE = {"include": [["main"]], "exclude": [["mjx-container"], ["pre"], [".sig"]]}
COLOURS = {"runOnly": ["color-contrast"]}


@pytest.fixture(scope="module")
def window(chromium):
    """What the pages share: the browser keeps the scripts that all of them load."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def tab(window, served):
    """A tab that notes what goes wrong, a request to elsewhere above all."""
    page = window.new_page()
    page.complaints = []

    def asked(request):
        if not request.url.startswith((served, "data:", "blob:")):
            page.complaints.append(f"asks for {request.url}")

    page.on("request", asked)
    page.on("console", lambda message: message.type == "error" and page.complaints.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: page.complaints.append(f"script: {error}"))
    page.on("requestfailed", lambda request: page.complaints.append(f"failed: {request.url}"))
    page.on("response", lambda response: response.status >= 400 and page.complaints.append(f"{response.status}: {response.url}"))
    yield page
    page.close()


def switch(tab, theme):
    tab.emulate_media(color_scheme=theme)
    tab.wait_for_function(f"document.documentElement.dataset.theme === '{theme}'")
    tab.evaluate("document.getAnimations().forEach((animation) => animation.finish())")  # colours on their way have any contrast


def resize(tab, width):
    tab.set_viewport_size({"width": width, "height": SIZES[width]})
    tab.wait_for_function(f"innerWidth === {width}")
    tab.evaluate(TWO_FRAMES)  # 'resize' has been heard


def settled(tab, look, patient=True):
    """What a look at the page finds once the theme's scripts, which wait a little after a resize, have caught up: nothing, or after a minute a fault."""
    if patient:
        with contextlib.suppress(TimeoutError):
            tab.wait_for_function(f"() => ({look})().length === 0", timeout=60_000)
            return []
    return tab.evaluate(look)


def open_page(tab, address):
    tab.complaints.clear()
    tab.emulate_media(color_scheme="light")
    resize(tab, 1280)
    tab.goto(address, wait_until="load")
    typeset(tab)


def violations(tab, context=None, options=None):
    """What axe-core calls serious or critical, as lines."""
    # preload would fetch style sheets a second time, from addresses that it guesses.
    found = Axe().run(tab, context=context, options={"resultTypes": ["violations"], "preload": False, **(options or {})})
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['html'][:120]}"
        for rule in found.response["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"][:3]
    ]


@contextlib.contextmanager
def unfolded(tab):
    """With every fold open, and its toggling heard."""
    folds = tab.evaluate_handle("[...document.querySelectorAll('details:not([open])')]")
    folds.evaluate("(blocks) => blocks.forEach((block) => (block.open = true))")
    tab.evaluate(TWO_FRAMES)
    yield
    folds.evaluate("(blocks) => blocks.forEach((block) => (block.open = false))")
    tab.evaluate(TWO_FRAMES)


def too_long(tab, page):
    """With every fold closed a page of the step is at most 9 screens long, one of the stack 10 from its top to its foot."""
    screens = tab.evaluate(LENGTH[page.split("/")[1]]) / SCREEN if page in WALK + STACK else 0
    return [f"{screens:.1f} screens"] if screens > (9 if page in WALK else 10) else []


def late(tab, page):
    """The first figure of a page of the step begins within the first screen; page 27 is a table."""
    first = tab.evaluate(FIRST_FIGURE) if page in WALK and not page.endswith("27-invariants") else 0
    return [f"the first figure begins at {first:.0f}"] if first > SCREEN else []


@pytest.mark.parametrize("page", PAGES)
def test_page(tab, served, page):
    """In what is folded, too: on a wide screen all is there as a whole; on a phone an edge shows where something goes on."""
    open_page(tab, f"{served}/{page}.html")
    wrong = {
        "raw LaTeX": tab.evaluate(RAW_LATEX),
        "MathJax error": tab.evaluate(MATHS_ERRORS),
        "not typeset": tab.evaluate(NOT_TYPESET),
        "image not loaded": tab.evaluate(BROKEN_IMAGES),
        "image without alternative text": tab.evaluate(NO_ALT),
        "too long": too_long(tab, page) + late(tab, page),
    }
    if page in STEP:
        with unfolded(tab):
            wrong["cut, wide"] = tab.evaluate(CUT) + tab.evaluate(LINES_CUT)
    for width, themes in zip(SIZES, (("light", "dark"), ("dark", "light"))):
        resize(tab, width)
        for theme in themes:
            switch(tab, theme)
            wrong[f"too wide, {theme} {width}"] = tab.evaluate(STICKING_OUT)
            wrong[f"scrolls, but not by keyboard, {theme} {width}"] = settled(tab, OUT_OF_REACH, patient=not any(wrong.values()))
    if page in STEP:
        with unfolded(tab):
            tab.evaluate("byhandTypeset.measure()")
            wrong["cut, narrow"] = settled(tab, f"() => ({CUT})().filter((line) => line.startsWith('cut'))", patient=not any(wrong.values()))
    tab.evaluate(WITHOUT_INSIDES)
    wrong["axe, light"] = violations(tab, AXE_ARTICLE)
    if page in PAGES[::4]:  # a sample; the others weekly
        switch(tab, "dark")
        wrong["axe, dark"] = violations(tab, AXE_ARTICLE, COLOURS)
    wrong["noted"] = tab.complaints
    assert not {what: found for what, found in wrong.items() if found}


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({*PAGES} - {*PAGES[::4]}))
def test_colours_in_the_dark(tab, served, page):
    open_page(tab, f"{served}/{page}.html")
    switch(tab, "dark")
    tab.evaluate(WITHOUT_INSIDES)
    assert not violations(tab, AXE_ARTICLE, COLOURS)


@pytest.mark.slow
def test_part_one_is_a_walk(tab, served):
    """All its pages together are at most 180 screens long; each is looked at above."""
    screens = 0
    for page in WALK:
        open_page(tab, f"{served}/{page}.html")
        screens += tab.evaluate(LENGTH["step"]) / SCREEN
    assert screens <= 180


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
def test_whole_page_is_accessible(tab, served, theme, width):
    """With the theme's own parts, and with every formula."""
    open_page(tab, f"{served}/{PAGES[1]}.html")
    switch(tab, theme)
    resize(tab, width)
    assert not violations(tab)


@pytest.mark.parametrize("width", SIZES)
def test_theme_can_be_switched(tab, served, width):
    open_page(tab, f"{served}/{PAGES[0]}.html")
    resize(tab, width)
    seen = set()
    for _ in range(3):
        tab.locator("button.theme-switch-button:visible").first.click()
        seen.add(tab.evaluate("document.documentElement.dataset.mode"))
    assert seen == {"auto", "light", "dark"}
    tab.evaluate("localStorage.clear()")


def test_search_finds_a_term(tab, served):
    open_page(tab, f"{served}/search.html?q=softmax")
    tab.wait_for_selector("#search-results ul.search li a")
    assert not tab.complaints


def test_copy_buttons(tab, served):
    open_page(tab, f"{served}/{PAGES[0]}.html")
    cells = tab.locator("div.cell_input").count()
    assert cells == 0 or tab.locator("div.cell_input button.copybtn").count() == cells


def test_works_without_a_server(chromium, site):
    """From file://, with the network off: formulas, pictures, the theme, and the list of search results."""
    context = chromium.new_context(offline=True)
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    wrong = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("requestfailed", lambda request: wrong.append(request.url))
    for page in PAGES[:3]:
        tab.goto((site / f"{page}.html").as_uri())
        typeset(tab)
        wrong += tab.evaluate(NOT_TYPESET) + tab.evaluate(BROKEN_IMAGES)
    assert not wrong
    tab.goto((site / "search.html").as_uri() + "?q=softmax")
    tab.wait_for_selector("#search-results ul.search li a")
    context.close()


def test_checks_catch_what_they_look_for(chromium):
    """Each look at a page sees the fault when it is there."""
    tab = chromium.new_page(viewport={"width": 390, "height": 844})
    tab.set_content(
        r"""<html lang="en"><title>x</title><main><article><p>a \frac{1}{2} b</p><span class="math">x</span><img src="data:,">
        <mjx-container><svg><g fill="red"></g></svg></mjx-container><div style="width:900px">wide</div>
        <div style="overflow-x:auto"><table style="width:800px"><tr><td>x</td></tr></table></div>
        <pre style="overflow:auto;width:9px">a line</pre></article></main></html>"""
    )
    for look in (RAW_LATEX, NOT_TYPESET, BROKEN_IMAGES, NO_ALT, MATHS_ERRORS, STICKING_OUT, OUT_OF_REACH, CUT, LINES_CUT):
        assert tab.evaluate(look), look
    assert any(re.match(r"image-alt \(critical\)", line) for line in violations(tab, AXE_ARTICLE))
    tab.close()
