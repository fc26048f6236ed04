"""Formulas are set as they come into view; anchors, folds, find, print and copying work as if all had been set at once."""

import re

import pytest
import toc

DELIMITER = re.compile(r"(?<!\\)\\[(\[]")
ON_SCREEN = """[...document.querySelectorAll('article .math')].filter((e) => {
    const box = e.getBoundingClientRect(); return box.width && box.bottom > 0 && box.top < innerHeight && e.checkVisibility(); })"""
ALL_SEEN_SET = f"() => {ON_SCREEN}.every((e) => e.querySelector('mjx-container > svg'))"
QUIET = "() => byhandTypeset.idle()"
# How far a link's target is from where the browser would put it now.
OFF_TARGET = """() => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const before = target.getBoundingClientRect().top;
    target.scrollIntoView({ behavior: "instant" });
    return Math.abs(target.getBoundingClientRect().top - before);
}"""


@pytest.fixture(scope="module")
def longest(site, served):
    """The address of the page with the most formulas."""
    page = max(toc.pages(), key=lambda page: (site / f"{page}.html").read_text(encoding="utf-8").count("math notranslate"))
    return f"{served}/{page}.html"


@pytest.fixture(scope="module")
def context(chromium, served):
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=served)
    yield context
    context.close()


@pytest.fixture
def tab(context):
    tab = context.new_page()
    tab.complaints = []
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    yield tab
    tab.close()
    assert not tab.complaints


def open_page(tab, address):
    tab.goto(address, wait_until="load")
    tab.evaluate("() => MathJax.startup.promise")


def settle(tab):
    tab.wait_for_function(QUIET)
    tab.wait_for_function(ALL_SEEN_SET)


def test_first_what_is_on_the_screen_then_what_comes(tab, longest):
    open_page(tab, longest)
    assert tab.evaluate(ALL_SEEN_SET)
    settle(tab)
    total = tab.evaluate("document.querySelectorAll('article .math').length")
    assert tab.evaluate("byhandTypeset.waiting()") > total / 2
    tab.evaluate("scrollTo({ top: document.body.scrollHeight / 2, behavior: 'instant' })")
    assert tab.evaluate(f"{ON_SCREEN}.length")
    settle(tab)


@pytest.mark.parametrize("keeps_place", [True, False])
def test_a_link_low_on_the_page_leads_to_its_target(tab, longest, keeps_place):
    """Also in a browser that does not keep the text in its place when something above it grows."""
    if not keeps_place:
        tab.add_init_script(
            """const supports = CSS.supports; CSS.supports = (...asked) => asked[0] !== "overflow-anchor" && supports.apply(CSS, asked);
            document.addEventListener("DOMContentLoaded", () => document.head.append(
                Object.assign(document.createElement("style"), { textContent: "* { overflow-anchor: none !important }" })));"""
        )
    open_page(tab, longest)
    low = tab.evaluate("[...document.querySelectorAll('article section[id]')].filter((s) => s.querySelector('.math') && s.checkVisibility()).at(-1).id")
    open_page(tab, f"{longest}?again#{low}")
    settle(tab)
    assert tab.evaluate(OFF_TARGET) <= 5
    # The reader scrolls up: what is read stays where it is while formulas above it are set. One real turn of the wheel, small, since it scrolls when
    # the browser finds time to.
    tab.mouse.move(640, 450)
    tab.evaluate("window.turned = new Promise((done) => addEventListener('wheel', done, { once: true, passive: true })); undefined")
    tab.mouse.wheel(0, -1)
    tab.evaluate("turned.then(() => true)")
    for _ in range(6):
        tab.evaluate("scrollBy({ top: -700, behavior: 'instant' })")
        settle(tab)
    mark = tab.evaluate("(window.mark = document.elementFromPoint(640, 300)).getBoundingClientRect().top")
    tab.evaluate("byhandTypeset.all()")
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert abs(tab.evaluate("mark.getBoundingClientRect().top") - mark) <= 5


def test_a_fold_is_set_when_it_opens(tab, longest):
    open_page(tab, longest)
    fold = tab.locator("article details:not([open]):has(.math)").first.element_handle()
    fold.scroll_into_view_if_needed()
    settle(tab)
    inside = "(fold) => [...fold.querySelectorAll('.math')].map((e) => Boolean(e.querySelector('mjx-container > svg')))"
    assert not any(fold.evaluate(inside))
    fold.evaluate("(fold) => { for (let e = fold; e; e = e.parentElement.closest('details')) e.open = true; fold.querySelector('.math').scrollIntoView(); }")
    settle(tab)
    assert any(fold.evaluate(inside))


def test_find_in_the_page(tab, longest):
    open_page(tab, longest)
    words = tab.evaluate(
        """[...document.querySelectorAll('article p')].filter((p) => p.checkVisibility() && p.firstChild?.data?.length > 60)
        .at(-2).firstChild.data.slice(0, 50)"""
    )
    assert tab.evaluate("(words) => find(words)", words)
    settle(tab)
    box = tab.evaluate("getSelection().getRangeAt(0).getBoundingClientRect().toJSON()")
    assert 0 <= box["top"] and box["bottom"] <= 900


def test_all_is_set_before_it_is_printed(tab, served):
    open_page(tab, f"{served}/book/step/13-loss.html")
    assert tab.evaluate("byhandTypeset.waiting()")
    tab.pdf()
    assert tab.evaluate("byhandTypeset.waiting()") == 0
    assert tab.evaluate("[...document.querySelectorAll('.math')].every((e) => e.querySelector('mjx-container > svg'))")


def test_a_formula_copies_as_its_tex(tab, longest):
    open_page(tab, longest)
    formula = tab.locator("article p span.math").first
    tex = formula.get_attribute("data-tex")
    paragraph = formula.locator("xpath=ancestor::p[1]")
    assert tex and "\\(" not in tex

    def copied():
        tab.keyboard.press("Control+c")
        return tab.evaluate("navigator.clipboard.readText()")

    formula.dblclick()
    assert copied().strip() == f"${tex}$"
    paragraph.evaluate("(p) => getSelection().selectAllChildren(p)")
    text = copied()
    assert f"${tex}$" in text and not DELIMITER.search(text)
    tab.locator("article").evaluate("(article) => getSelection().selectAllChildren(article)")
    everything = copied()
    assert "$$" in everything and not DELIMITER.search(everything) and everything.count("\n") > 50
    title = tab.locator("article h1").first
    title.evaluate("(h1) => getSelection().selectAllChildren(h1)")
    assert copied().strip("# \n") == title.inner_text().strip("# \n")


def test_only_wide_formulas_are_marked_wide(tab, served):
    open_page(tab, f"{served}/book/step/13-loss.html")
    tab.evaluate("byhandTypeset.all()")
    found = tab.evaluate("['mjx-container', '.wide', '[tabindex]'].map((what) => document.querySelectorAll(`span.math ${what}`).length)")
    assert found[0] > 10 and found[1:] == [0, 0]
    # In a narrow place the same formula scrolls, and can be reached by keyboard.
    tab.evaluate("document.querySelector('article div.math').parentElement.style.width = '60px'; dispatchEvent(new Event('resize')); byhandTypeset.measure()")
    assert tab.evaluate("document.querySelector('article div.math mjx-container').matches('.wide[tabindex=\"0\"]')")
