"""The two experiments in a real browser: the document's figures at the start, the package's arithmetic everywhere, usable by everyone."""

import json
import math
import re

import claims
import numpy as np
import pytest
from browser import PATIENCE

from byhand.numpy import attention
from byhand.worked import by_hand
from byhand.worked.experiments import AttentionTable, DepthPlot

PAGE = """<!DOCTYPE html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8"><title>Experiments</title>
<meta name="viewport" content="width=device-width"><style>html[data-theme=dark] body {{ background: #121212; color: #e8e8e8 }}
body {{ font-family: sans-serif; margin: 16px }}</style></head><body><main><h1>Experiments</h1>{body}</main></body></html>"""


@pytest.fixture
def show(chromium, tmp_path):
    """Open experiments from a file, with the network blocked; gives the page."""
    contexts = []

    def show(*experiments, theme="light", **options):
        (tmp_path / "page.html").write_text(PAGE.format(theme=theme, body="".join(e._repr_html_() for e in experiments)), "utf-8")
        context = chromium.new_context(**options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.wrong = []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("request", lambda request: request.url.startswith("file:") or page.wrong.append(request.url))
        page.goto((tmp_path / "page.html").as_uri())
        return page

    yield show
    wrong = [problem for context in contexts for page in context.pages for problem in page.wrong]
    for context in contexts:
        context.close()
    assert not wrong


def move(page, name, value):
    """Put a slider on a value, as a reader does who drags it."""
    page.get_by_role("slider", name=name).evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})) }", str(value)
    )


def printed(claim_id):
    return claims.lookup(claim_id)["printed"]


def shares(page, token):
    return page.get_by_role("row", name=re.compile(f"^{token}")).first.locator("td.weight").all_inner_texts()


# ---- the document's own figures at the start ----------------------------------------------------


@pytest.mark.parametrize("scripts", [True, False])
def test_attention_table_starts_with_the_documents_figures(show, scripts):
    page = show(AttentionTable(), java_script_enabled=scripts)
    for token in ("The", "cat", "sat"):
        assert shares(page, token) == [f"{share}\N{NO-BREAK SPACE}%" for share in printed(f"d2-widget-row-{token.lower()}")]
    vector = f"[{', '.join(printed('d2-widget-mixed'))}]"
    assert page.get_by_role("row", name=re.compile("^sat")).first.locator("td.mixed").inner_text() == vector
    assert page.get_by_role("status").inner_text().endswith(f"mixed value {vector}.")
    assert page.get_by_role("slider").count() == scripts


@pytest.mark.parametrize("scripts", [True, False])
def test_depth_plot_starts_with_the_documents_figures(show, scripts):
    page = show(DepthPlot(), java_script_enabled=scripts)
    result = page.get_by_role("status").inner_text()
    assert result.startswith("With a = -0.10, after 12 layers: ")
    assert f"|a|L = {printed('d2-widget-direct')}," in result and f"|1+a|L = {printed('d2-widget-residual')}." in result
    assert page.get_by_role("slider").count() == 2 * scripts


def test_text_shows_the_same_figures():
    text = repr(AttentionTable()) + repr(DepthPlot())
    for claim_id in ("row-the", "row-cat", "row-sat", "mixed", "direct", "residual"):
        for figure in claims.flat(printed(f"d2-widget-{claim_id}")):
            assert figure in text


@pytest.mark.parametrize("experiment", [AttentionTable, DepthPlot])
def test_output_is_the_same_every_time(experiment):
    assert experiment()._repr_html_() == experiment()._repr_html_()
    assert "http" not in experiment()._repr_html_()


# ---- the arithmetic is the package's ------------------------------------------------------------

RNG = np.random.default_rng(0)
LARGER = AttentionTable(tokens="abcde", q=RNG.normal(size=(5, 3)), k=RNG.normal(size=(5, 3)), v=RNG.normal(size=(5, 4)), temperature=0.7)


@pytest.mark.parametrize("table", [AttentionTable(), LARGER, AttentionTable(temperature=0.013)])
def test_attention_table_computes_what_the_package_computes(show, table):
    page = show(table)
    start = page.get_by_role("slider").input_value()
    for place in (start, -1, -0.55, 0, 0.3, 1):
        move(page, "temperature", place)
        temperature = table.temperature if place == start else 10 ** float(place)
        mixed, cache = attention.attention(table.q[None, None] / temperature, table.k[None, None], table.v[None, None], causal=True)
        rows = page.locator("table").first.locator("tbody tr").evaluate_all("all => all.map(row => [...row.cells].map(cell => cell.dataset.value))")
        for i, (_, *cells) in enumerate(rows):
            weights = [float(cell) for cell in cells[: i + 1]]
            np.testing.assert_allclose(weights, cache.weights[0, 0, i, : i + 1], rtol=0, atol=1e-14)
            np.testing.assert_allclose(json.loads(cells[-1]), mixed[0, 0, i], rtol=0, atol=1e-13)
        assert page.get_by_role("slider").get_attribute("aria-valuetext") == f"{temperature:#.3g}".rstrip(".")


SETTINGS = [(-0.1, 12), (0, 5), (-1, 5), (1, 60), (-2, 200), (2, 200), (0.01, 200), (-0.9, 1), (0.1, 100), (-0.5, 37)]


def test_depth_plot_computes_what_the_package_computes(show):
    """Every gain in the table, and every point of both curves, as seen on the vertical axis."""
    page = show(DepthPlot())
    for a, depth in SETTINGS:
        move(page, "slope a", a)
        move(page, "layers L", depth)
        expected = DepthPlot(a=a, L=depth)
        rows = page.locator("tbody tr").evaluate_all("all => all.map(row => [row.cells[0].textContent, ...[...row.cells].map(c => c.dataset)])")
        assert [int(row[0]) for row in rows] == expected.depths()
        for n, _, *cells in rows:
            gains = expected.gains(int(n))
            np.testing.assert_allclose([float(cell["value"]) for cell in cells], gains, rtol=1e-12)
            np.testing.assert_allclose([float(cell["height"]) for cell in cells], list(map(expected.height, gains)), rtol=0, atol=1e-10)
        labels = page.locator("svg text[text-anchor=end]").evaluate_all("all => all.map(e => [e.textContent, e.getAttribute('y')])")
        ticks = {label: float(y) - 4 for label, y in labels}
        bottom, top = ticks["−18"], ticks["12"]
        for side, kind in enumerate(("direct", "residual")):
            points = re.findall(r"[ML]([\d.]+),([\d.]+)", page.locator(f"svg path.{kind}").get_attribute("d"))
            assert len(points) == depth + 1
            seen = [-18 + 30 * (bottom - float(y)) / (bottom - top) for _, y in points]
            np.testing.assert_allclose(seen, [expected.height(expected.gains(n)[side]) for n in range(depth + 1)], rtol=0, atol=0.01)


def test_height_is_clipped_to_the_axis():
    """What document 2 says of its axis."""
    found = claims.lookup("d2-widget-clip")["exact"]
    assert math.isclose(DepthPlot().height(0.1**12), found["log10_direct"])
    assert math.isclose(DepthPlot().height(0.9**12), found["log10_residual"])
    assert DepthPlot(a=0, L=3).height(DepthPlot(a=0, L=3).gains()[0]) == found["a0_clips_to"]
    assert DepthPlot(a=1, L=60).height(2.0**60) == found["a1_L60_clips_to"]


# ---- for every reader ---------------------------------------------------------------------------


def test_keyboard_reaches_and_moves_the_sliders(show):
    page = show(AttentionTable(), DepthPlot())
    for name, before, after in (("temperature", "1.00", "1.12"), ("slope a", "-0.10", "-0.09"), ("layers L", "12", "13")):
        slider = page.get_by_role("slider", name=name)
        while not slider.evaluate("input => input === document.activeElement"):
            page.keyboard.press("Tab")
        assert slider.get_attribute("aria-valuetext") == before
        page.keyboard.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == after
    told = page.get_by_role("status").all_inner_texts()
    assert told[0].startswith("At temperature 1.12,") and told[1].startswith("With a = -0.09, after 13 layers: ")
    assert "After 13 layers: direct" in page.get_by_role("img").get_attribute("aria-label")


def test_several_experiments_share_a_page(show):
    page = show(AttentionTable(), DepthPlot(), AttentionTable(temperature=2), DepthPlot(a=0.5, L=3))
    ids = page.eval_on_selector_all("[id]", "all => all.map(e => e.id)")
    assert len(ids) == len(set(ids)) == 6
    move_second = page.get_by_role("slider", name="temperature").nth(1)
    move_second.focus()
    page.keyboard.press("ArrowRight")
    first, _, third, _ = page.get_by_role("status").all_inner_texts()
    assert first.startswith("At temperature 1.00,") and third.startswith("At temperature 2.24,")


def luminance(colour):
    channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_and_contrast(show, theme):
    from axe_playwright_python.sync_playwright import Axe

    page = show(AttentionTable(), DepthPlot(), theme=theme)
    found = Axe().run(page).response["violations"]
    assert not [f"{violation['id']}: {violation['nodes'][0]['html']}" for violation in found]
    behind = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor") if theme == "dark" else "rgb(255, 255, 255)")
    for part in (".direct", ".residual", "td.weight", "caption"):
        text = luminance(page.locator(part).first.evaluate("e => getComputedStyle(e).color"))
        assert (max(text, behind) + 0.05) / (min(text, behind) + 0.05) >= 4.5, part


def test_fits_a_phone(show):
    page = show(AttentionTable(), DepthPlot(), viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for box in page.locator(".scroll, .plot svg").all():
        if box.is_visible():
            assert box.evaluate("e => e.scrollWidth <= e.clientWidth || e.tagName === 'svg'")
    assert page.locator(".plot svg").bounding_box()["width"] <= 390
    assert all(slider.bounding_box()["height"] >= 24 for slider in page.get_by_role("slider").all())


def test_paper_shows_the_figures_without_the_sliders(show):
    page = show(AttentionTable(), DepthPlot())
    page.emulate_media(media="print")
    assert not any(slider.is_visible() for slider in page.locator("input").all())
    assert all(result.is_visible() for result in page.locator(".result").all())


# ---- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0, -1, math.inf, math.nan, "1"])
def test_refuses_a_temperature(temperature):
    with pytest.raises(ValueError, match=f"temperature was {temperature}; it must be a finite number above 0"):
        AttentionTable(temperature=temperature)


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        ({"q": [[1, 0]]}, "q had shape"),
        ({"v": [1, 2, 3]}, "v had shape"),
        ({"k": [[1], [2], [3]]}, "k had width 1"),
        ({"k": [[1, 0], [0, math.nan], [1, 1]]}, "k held a value that is not finite"),
    ],
)
def test_refuses_arrays(choices, complaint):
    with pytest.raises(ValueError, match=complaint):
        AttentionTable(**choices)


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        ({"a": 2.01}, "a was 2.01"),
        ({"a": -0.123}, "a was -0.123"),
        ({"a": math.nan}, "a was nan"),
        ({"L": 0}, "L was 0"),
        ({"L": 201}, "L was 201"),
        ({"L": 2.5}, "L was 2.5"),
        ({"clip": (12, -18)}, "clip was"),
        ({"clip": (0, 12)}, "clip was"),
    ],
)
def test_refuses_depths(choices, complaint):
    with pytest.raises(ValueError, match=complaint):
        DepthPlot(**choices)


# ---- a number to type ---------------------------------------------------------------------------


ANSWERS = {
    "0.072": "Right: 0.072.",
    " 0,0723 ": "Right: 0.072.",
    "7.2 %": "Right: 0.072.",
    "0.071": "Right: 0.072.",
    "−0.072": "Not yet: the number is right, its sign is the other one.",
    "0.534": "Not yet: this is what comes out when the row of <bos> is taken.",
    "0.72": "Not yet: the digits are right, the point stands elsewhere.",
    "0.07": "So far so good: give 3 decimals.",
    "0.5": "Not yet. The line above has been worked in the same way; set yours beside it.",
    "": "Type a number first.",
    "am": "“am” is not a number: write it like 0.250.",
    "<b>1</b>": "“<b>1</b>” is not a number: write it like 0.250.",
    "1/0": "“1/0” is not a number: write it like 0.250.",
    "NaN": "“NaN” is not a number: write it like 0.250.",
    "1e999": "“1e999” is not a number: write it like 0.250.",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_typed_number_gets_its_verdict(show, theme):
    page = show(by_hand("p(am)?", 0.0723294, slips={"the row of <bos> is taken": 0.534447}), theme=theme, viewport={"width": 390, "height": 800})
    field, said = page.get_by_role("textbox", name="Your answer"), page.get_by_role("status")
    for typed, words in ANSWERS.items():
        field.fill(typed)
        field.press("Enter")
        assert said.inner_text() == words
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_scripts_the_answer_can_be_opened(show):
    page = show(by_hand("p(am)?", 0.0723294), java_script_enabled=False)
    assert page.get_by_role("textbox").count() == 0
    page.get_by_text("Show the answer").click()
    assert page.get_by_text("0.072", exact=True).is_visible()
