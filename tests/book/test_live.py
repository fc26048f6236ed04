"""The live step in a real browser: its numbers are the package's, every formula gives its number, and nothing a stranger writes does harm."""

import json
import re
from dataclasses import replace
from urllib.parse import quote, unquote

import numpy as np
import pytest
import toc
from test_pages import COLOURS, OUT_OF_REACH, STICKING_OUT, violations

from byhand import toy
from byhand.live import step
from byhand.live.data import data, flat
from byhand.worked import live_figure

PAGE = "book/step/00-live.html"
# What the page's own script says of a setting, for the tests below
HELPERS = """
window.T = (() => {
  const F = byhandFormulas, S = byhandStep;
  const JS = {exp: "Math.exp(", log: "Math.log(", sqrt: "Math.sqrt(", abs: "Math.abs(", sq: "Q("};
  const SIGN = {" · ": "*", " / ": "/", " + ": "+", " − ": "-", "−": "-", ") / ": ")/"};
  // reads what a reader sees, and knows nothing of rules or operands
  const plain = (parts) => parts.filter((p) => !p.condition).map((p) => p.fn ? JS[p.fn] + plain(p.parts) + ")"
    : p.parts ? "(" + plain(p.parts) + ")" : p.text !== undefined ? SIGN[p.text] ?? p.text : `(${p.value})`).join("");
  const all = (list) => list.flatMap((p) => (p.parts ? [p, ...all(p.parts)] : [p]));
  const setting = ({toy, leaves, sizes, off}) => {
    const graph = F.load(S, {sizes: sizes ?? S.toys[toy].sizes}, off), given = {...S.toys[toy].leaves, ...leaves};
    return [graph, F.evaluate(graph, given), given];
  };
  return {
    values: (s) => Object.fromEntries(Object.entries(setting(s)[1]).map(([name, x]) => [name, [...x]])),
    // each formula, as shown, against its number; each link against the number that it shows; each number's users against all links
    formulas: (s) => {
      const [graph, values] = setting(s), wrong = [], readers = {};
      let count = 0, links = 0;
      for (const stage of graph.order) for (let i = 0; i < stage.count; i++) {
        const e = F.explain(graph, values, stage.name, F.unflat(stage, i)), got = Function("Q", "return " + plain(e.parts))((x) => x * x);
        count++;
        if (!(Math.abs(got - e.value) <= 1e-12 * Math.max(1, Math.abs(e.value)))) wrong.push(`${stage.name}[${i}] ${got} ${e.value}`);
        for (const p of all(e.parts)) if (p.stage) {
          const at = F.flat(graph.stage[p.stage], p.index);
          links++;
          if (values[p.stage][at] !== p.value) wrong.push(`a link of ${stage.name}[${i}]`);
          (readers[p.stage + at] ??= new Set()).add(stage.name + i);
        }
        const zero = F.zeroCause(graph, values, stage.name, F.unflat(stage, i));
        if (F.isZero(graph, e.value) !== Boolean(zero?.cause)) wrong.push(`${stage.name}[${i}] is ${e.value}, because ${zero?.cause}`);
      }
      for (const name of graph.names) for (let i = 0; i < values[name].length; i++) {
        const got = F.uses(graph, values, name, F.unflat(graph.stage[name], i)).map(([n, at]) => n + F.flat(graph.stage[n], at));
        const want = readers[name + i] ?? new Set();
        if (got.length !== want.size || got.some((x) => !want.has(x))) wrong.push(`users of ${name}[${i}]`);
      }
      return {count, links, wrong: wrong.slice(0, 5)};
    },
    // Adam's rule from gradients that are handed in
    updates: (s, gradients) => {
      const [graph, values] = setting(s);
      for (const [name, g] of Object.entries(gradients)) values["d:" + name] = g;
      return Object.fromEntries(S.weights.map((name) => {
        const stage = graph.stage["new:" + name];
        return [name, gradients[name].map((_, i) => stage.run(F.envOf(graph, stage, F.unflat(stage, i)), values))];
      }));
    },
    // gradients of computed numbers against differences of the loss, each number raised on its way
    nudges: (s) => {
      const [graph, values, leaves] = setting(s), h = 1e-5;
      let worst = 0, count = 0;
      for (const stage of [...graph.order, ...S.weights.map((name) => graph.stage[name])]) {
        const d = values["d:" + stage.name];
        if (!d) continue;
        d.forEach((g, i) => {
          const at = (x) => F.evaluate(graph, leaves, [stage.name, i, x]).loss[0];
          count++;
          worst = Math.max(worst, Math.abs((at(h) - at(-h)) / (2 * h) - g) / Math.max(1, Math.abs(g)));
        });
      }
      return {worst, count};
    },
    meters: () => S.questions.flatMap((q) => q.variants.map((v) => {
      const [graph, values] = setting({toy: v.toy, leaves: v.leaves, sizes: v.sizes, off: v.switch});
      return [q.key, v.name, q.meters.map((m) => F.meter(graph, values, F.lossAfter(graph, values), m)), v.read];
    })),
  };
})()"""


@pytest.fixture(scope="module")
def watched(chromium, served, site):
    """Opens the live page in a tab that notes what goes wrong and lets nothing out."""
    contexts = []

    def watched(state="", by="http", **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, "color_scheme": "light", **options})
        contexts.append(context)
        page = context.new_page()
        page.wrong = []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("console", lambda message: message.type == "error" and page.wrong.append(message.text))
        page.on("dialog", lambda dialog: page.wrong.append(f"a dialog: {dialog.message}"))
        start = f"{served}/" if by == "http" else site.as_uri() + "/"
        page.on("request", lambda request: request.url.startswith((start, "data:")) or page.wrong.append(request.url))
        page.goto(start + PAGE + state, wait_until="load")
        page.locator("#live-step.on .say").wait_for()
        return page

    yield watched
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page(watched):
    page = watched()
    page.evaluate(HELPERS)
    return page


@pytest.fixture(autouse=True)
def nothing_goes_wrong(page):
    yield
    assert not page.wrong
    page.wrong.clear()


def visit(page, state):
    """Another address of the same page, as a reader types it."""
    page.evaluate("state => { location.hash = state }", state)
    page.wait_for_function("state => decodeURIComponent(location.hash).length && document.querySelector('#live-step .say').textContent", arg=state)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def card(page):
    return page.locator("#live-step .number").inner_text()


def said(page):
    return page.locator("#live-step .say").inner_text()


def chosen(page):
    return page.locator("#live-step td.sel button").get_attribute("aria-label")


# ---- the numbers --------------------------------------------------------------------------------


def random_settings():
    """Weights, words, ε, smoothing, the learning rate, what is scored, and what the package can switch: positions, padding, heads."""
    base = toy.lively()
    for seed in range(54):
        rng = np.random.default_rng(seed)
        heads = {} if seed % 5 else dict(n_heads=1, n_kv_heads=1, d_k=4, d_v=4)
        config = replace(base.config, eps=float(10 ** rng.uniform(-6, -1)), positions=("sinusoidal", "none")[seed % 3 == 0], **heads)
        yield replace(
            base, config=config, params={name: rng.normal(0, 0.8, value.shape) for name, value in base.params.items()}, smoothing=float(rng.uniform(0, 0.5)),
            source=rng.integers(0, 2, (1, 3)), decoder_input=rng.integers(0, 4, (1, 2)), targets=rng.integers(0, 4, (1, 2)),
            reduction=("mean", "last", "sum")[seed % 3], source_lengths=np.array([int(rng.integers(1, 4))]) if seed % 4 == 0 else None,
        ), float(10 ** rng.uniform(-5, -0.5))  # fmt: skip


def test_numbers_are_the_packages(page):
    """Forward, gradients, and from the package's gradient the update: the three examples and 54 random settings, within 1e-12."""
    settings = [(getattr(toy, name)(), lr) for name, lr in (("document", 0.01), ("exact", 0.01), ("lively", 0.001))] + list(random_settings())
    compared = 0
    for case, lr in settings:
        want = step.recorded(case, lr)
        given = {"toy": "lively", "leaves": flat(step.leaves(case, lr)), "sizes": step.sizes(case)}
        ours = page.evaluate("s => T.values(s)", given)
        gradients = {name: np.ravel(want[f"d:{name}"]).tolist() for name in case.params}
        updated = page.evaluate("([s, g]) => T.updates(s, g)", [given, gradients])
        for name, value in want.items():
            mine = updated[name[4:]] if name.startswith("new:") else ours[name]
            np.testing.assert_allclose(mine, np.ravel(value), rtol=1e-12, atol=1e-12, err_msg=name)
            compared += value.size
    assert len(settings) >= 50 and compared > 100_000


@pytest.mark.parametrize("off", [None, "without norms", "without residuals", "without relu"])
@pytest.mark.parametrize("name", ["document", "exact", "lively"])
def test_every_formula_gives_its_number(page, name, off):
    leaves = {"eps": [1e-5]} if off and name == "document" else {}
    found = page.evaluate("s => T.formulas(s)", {"toy": name, "off": off, "leaves": leaves})
    assert not found["wrong"] and found["count"] > 1900 and found["links"] > 7_000


@pytest.mark.parametrize("off", [None, "without norms"])
def test_gradients_of_computed_numbers(page, off):
    """Raising any number on its way raises the loss as its gradient says, those of a norm's inner numbers included."""
    found = page.evaluate("s => T.nudges(s)", {"toy": "lively", "off": off, "leaves": {"eps": [0.1]}})
    assert found["worst"] < 1e-7 and found["count"] > 800


def test_questions_read_what_was_stored(page):
    meters = page.evaluate("T.meters()")
    for key, name, ours, want in meters:
        np.testing.assert_allclose(ours, want, rtol=1e-9, atol=1e-12, err_msg=f"{key}, {name}")
    assert len(meters) > 45


def test_the_data_is_what_the_package_writes(page):
    """Built with the site. Numbers may differ in the last digits from processor to processor."""

    def close(a, b):
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(close(a[key], b[key]) for key in a)
        if isinstance(a, list):
            return len(a) == len(b) and all(map(close, a, b))
        return abs(a - b) <= 1e-9 * max(1, abs(a)) if isinstance(a, float) else a == b

    ours = page.evaluate("byhandStep")
    pages = ours.pop("pages")
    assert close(json.loads(json.dumps(data())), ours)
    assert all(address.endswith(".html") and title for where in pages.values() for address, title in filter(None, where))


# ---- using it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["http", "file"])
def test_the_first_twenty_seconds(watched, by):
    page = watched(by=by)
    assert said(page).startswith("0.072 is p[i·1, am]: the probability of am after i·1.")
    assert "Click any number" in card(page)
    operands = page.locator("#live-step .formula").first.locator("button.n")
    assert operands.all_inner_texts() == ["−1", "1", "0", "−1", "0"]
    operands.first.click()
    assert said(page).startswith("−1 is z[i·1, am]: the logit of am after i·1.") and "Click any number" not in card(page)
    assert page.locator(".stage[aria-current]").get_attribute("data-name") == "logits"
    assert "Path: p[i·1, am] ‹ z[i·1, am]" in card(page)
    assert "1 · (0.072 − 0.925) = −0.853" in card(page)
    assert re.search(r"Raise z\[i·1, am\] by 0\.01: its gradient promises −0\.009; the loss goes from 2\.526523 to 2\.51\d{4}", card(page))
    page.get_by_role("button", name="← back").click()
    assert said(page).startswith("0.072")
    assert not page.wrong


def test_a_weight_can_be_changed(page):
    visit(page, "#at=output.w,0,0")
    field = page.get_by_label("new value of W_out[0, <bos>]")
    field.fill("2")
    field.press("Enter")
    values = page.evaluate(
        "s => T.values(s)", {"toy": "document", "leaves": {"output.w": [2, *page.evaluate("byhandStep.toys.document.leaves['output.w'].slice(1)")]}}
    )
    assert f"loss {values['loss'][0]:.4f}" in page.locator(".bar").inner_text()
    assert re.search(r"Changed: [\d,]+ of 2,\d{3} numbers; the whole encoder did not\.", card(page))
    assert page.locator("td.moved").count() > 5 and page.locator("td.sel s").inner_text() == "1"
    assert "set=output.w" in page.evaluate("location.hash")
    for text in ("", "abc", "NaN", "1e999", "Infinity", "2e6"):
        field.fill(text)
        field.press("Enter")
        assert page.locator(".edit .error").inner_text() and field.get_attribute("aria-invalid") == "true"
        assert f"loss {values['loss'][0]:.4f}" in page.locator(".bar").inner_text(), "the last good state is kept"
    page.locator(".edit").get_by_role("button", name="as printed").click()
    assert "loss 2.5265" in page.locator(".bar").inner_text() and not page.locator("td.moved").count()
    field.fill("−1.5")
    field.press("Enter")
    assert not page.locator(".edit .error").inner_text() and said(page).startswith("−1.500 is")


def test_fields_refuse_what_cannot_be(page):
    visit(page, "#toy=lively")
    loss = page.locator(".loss").inner_text()
    for name, texts in {"ε": ("-1", "", "x", "1e9"), "smoothing": ("1", "-0.1", "nan"), "lr": ("-1", "1e3", "")}.items():
        field = page.get_by_label(name, exact=True)
        for text in texts:
            field.fill(text)
            field.press("Enter")
            assert field.get_attribute("aria-invalid") == "true" and page.locator(f"#{field.get_attribute('aria-describedby')}").inner_text()
            assert page.locator(".loss").inner_text() == loss
    # ε = 0 on a constant row: no number at all
    visit(page, "#question=eps&setting=2")
    page.get_by_label("ε", exact=True).fill("0")
    page.get_by_label("ε", exact=True).press("Enter")
    assert "is no finite number: nothing was changed" in page.locator("#live-eps-error").inner_text()
    assert "no number" not in page.locator(".bar").inner_text()


def test_words_and_rates_can_be_changed(page):
    visit(page, "#toy=document")
    page.locator('[data-leaf="targets:1"]').select_option("0")
    assert "loss 0.7265" in page.locator(".bar").inner_text() and "before the loss nothing did" in card(page)
    page.get_by_label("learning rate, logarithmic").evaluate("(e) => { e.value = -1; e.dispatchEvent(new Event('input')) }")
    assert page.get_by_label("lr", exact=True).input_value() == "0.1"
    page.locator(".bar").get_by_role("button", name="as printed").click()
    assert "loss 2.5265 → 2.2713" in page.locator(".bar").inner_text() and not page.locator(".changed").inner_text()


def test_a_question_asks_before_it_shows(page):
    visit(page, "#toy=document")
    page.get_by_label("Questions", exact=True).select_option(label="4  Let it look ahead")
    box = page.locator(".question")
    assert "does the second word change the logits" in box.inner_text() and not box.locator("table").count()
    box.get_by_role("button", name="yes").click()
    assert "You said “yes”. It is: no." in box.inner_text()
    rows = box.locator("tbody tr")
    assert rows.count() == 6 and len({rows.nth(i).locator("td").first.inner_text() for i in range(3)}) == 1
    rows.nth(3).get_by_role("button").click()
    assert "setting=3" in page.evaluate("location.hash") and page.locator("td.moved").count()
    page.get_by_label("Close the question").click()
    assert box.is_hidden() and "question" not in page.evaluate("location.hash")


def test_a_zero_says_why(page):
    for state, cause in {
        "d:target_embedding,2,0": "never looked up", "decoder.0.self_attention.weights,0,0,1": "masked", "d:logits,0,1": "not scored",
        "d:decoder.0.feed_forward.hidden,1,1": "gate closed", "d:output.w,1,0": "a factor is 0", "d:output.b,0": None,
        "d:encoder.0.feed_forward.b_2,0": "terms cancel",
    }.items():  # fmt: skip
        visit(page, f"#toy=document&at={state}")
        assert (f"It is 0: {cause}" in card(page)) == (cause is not None), state


def test_by_keyboard(page):
    visit(page, "#toy=lively&at=logits,0,0")
    page.locator("td.sel button").focus()
    keys = page.keyboard
    keys.press("ArrowRight")
    assert chosen(page).startswith("z[<bos>·0, i] ")
    keys.press("ArrowDown")
    assert chosen(page).startswith("z[i·1, i] ")
    keys.press("Enter")
    assert chosen(page).startswith("h[i·1, 0] ")
    keys.press("Backspace")
    assert chosen(page).startswith("z[i·1, i] ")
    keys.press("?")
    assert page.get_by_role("dialog").is_visible()
    keys.press("Escape")
    page.locator(".stage[aria-current]").focus()
    keys.press("ArrowLeft")
    keys.press("Enter")
    assert page.locator(".stage[aria-current]").get_attribute("data-name") == "probabilities"


def test_said_in_words(page):
    """What a screen reader hears: the chosen number in a sentence, the cells by name and value, the operands in a list of buttons."""
    visit(page, "#toy=lively&at=encoder.0.self_attention.weights,0,1,2")
    assert page.locator(".say").get_attribute("aria-live") == "polite"
    assert said(page).startswith("0.406 is A[1, suis·1, je·2]: how much suis·1 takes from je·2, head 1, in the encoder's self-attention.")
    assert chosen(page) == "A[1, suis·1, je·2] 0.406"
    names = page.evaluate("[...document.querySelectorAll('#live-step button')].map((b) => (b.getAttribute('aria-label') ?? b.textContent).trim())")
    assert all(names)
    words = page.evaluate("byhandFormulas && Object.values(byhandStep.labels).map(([, text]) => text)")
    assert not [text for text in words if "undefined" in text]


# ---- the address --------------------------------------------------------------------------------


def test_an_address_brings_everything_back(watched, page):
    visit(page, "#toy=lively&set=output.w,3,-0.25&set=smoothing,0,0.2&set=source,2,1&at=d:encoder.0.input.via_key,1,2&tab=1")
    again = watched(page.evaluate("location.hash"))
    assert card(again) == card(page) and again.locator(".loss").inner_text() == page.locator(".loss").inner_text()
    assert again.evaluate("location.hash") == page.evaluate("location.hash")
    assert again.locator(".number .dim", has_text="Raise").count() == 0 and not again.wrong


NASTY = '"><img src=x onerror=alert(1)><script>alert(1)</script>'


@pytest.mark.parametrize(
    "state",
    [
        f"#{NASTY}", f"#toy={NASTY}", f"#at={NASTY}", f"#question={NASTY}", f"#set={NASTY},0,1", f"#set=output.w,0,{NASTY}", f"#tab={NASTY}",
        "#toy=__proto__", "#toy=constructor", "#at=__proto__,0", "#at=logits,9,9", "#at=logits,0", "#at=logits,-1,0", "#at=logits,1e1,0", "#at=",
        "#setting=1", "#question=ahead&setting=77", "#set=output.w,99,1", "#set=output.w,0,NaN", "#set=output.w,0,1e99", "#set=loss,0,1",
        "#set=causal_mask,1,1", "#set=__proto__,0,1", "#set=source,0,5", "#set=eps,0,-1", "#set=output.w,0", "#set=a,b,c,d,e", "#%E0%A4%A", "#tab=7",
        "#toy=document&set=smoothing,0,1", "#x=1", "#" + "a" * 30_000,
    ],
)  # fmt: skip
def test_a_malformed_address_is_left_out(page, state):
    visit(page, "#at=logits,0,0")
    page.evaluate("state => { location.hash = state }", state)
    page.wait_for_function("document.querySelector('#live-step .note').textContent")
    note = page.locator("#live-step .note").inner_text()
    assert note.startswith("Not everything in this address could be understood; left out: ") and len(note) < 250
    assert "loss 2.5265" in page.locator(".bar").inner_text() or "question=" in state
    assert not page.locator("#live-step :is(img, script)").count()


def test_the_map_leads_in(site, page):
    """Each page's map names a number that is there."""
    shapes = page.evaluate("(() => { const g = byhandFormulas.load(byhandStep, byhandStep.toys.document); return g.names })()")
    found = 0
    for name in toc.pages():
        for address in re.findall(r'href="([^"]*00-live\.html#at=[^"]*)"', (site / f"{name}.html").read_text("utf-8")):
            found += 1
            assert unquote(address.split("#at=")[1]) in shapes, (name, address)
    assert found > 20
    visit(page, "#at=" + quote("d:decoder.0.residual_3"))
    assert said(page).split(" is ")[1].startswith("dR[<bos>·0, 0]") and not page.locator(".note").inner_text()


def test_the_questions_that_teachers_open_with(root, page):
    """Each address on their page opens its question, unanswered."""
    words = (root / "book/workshop/teachers.md").read_text("utf-8")
    opened = re.findall(r'href="\.\./step/00-live\.html(#question=\w+)">([^<]+)<', words)
    assert len(opened) == 8 == len(set(opened))
    for state, title in opened:
        visit(page, "#toy=document")
        visit(page, state)
        assert title in page.locator(".question").inner_text().splitlines(), state
        assert not page.locator(".note").inner_text()


# ---- how it looks -------------------------------------------------------------------------------

STATES = ["#toy=document", "#toy=lively&at=d:encoder.0.input,0,1", "#question=sure&setting=4", "#at=decoder.0.feed_forward.w_1,0,1&tab=1", "#question=ahead"]
LOOKED_AT_BY_AXE = (STATES[2], STATES[3])


@pytest.mark.parametrize("width", [1280, 390])
def test_fits_and_is_accessible(watched, width):
    page = watched(viewport={"width": width, "height": {1280: 800, 390: 844}[width]})
    wrong = {}
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(f"document.documentElement.dataset.theme === '{theme}'")
        for state in STATES:
            visit(page, state)
            page.evaluate("document.getAnimations().forEach((animation) => animation.finish())")
            where = f"{theme} {state}"
            wrong[f"too wide, {where}"] = page.evaluate(STICKING_OUT)
            wrong[f"scrolls, but not by keyboard, {where}"] = page.evaluate(OUT_OF_REACH)
            if state in LOOKED_AT_BY_AXE:
                wrong[f"axe, {where}"] = violations(page, {"include": [["#live-step"]]}, COLOURS if theme == "dark" else None)
    assert not {what: found for what, found in wrong.items() if found} and not page.wrong
    if width == 1280:
        visit(page, "#toy=document")
        assert page.evaluate("document.querySelector('#live-step').getBoundingClientRect().bottom") <= 800, "one screen"
        assert page.locator("#pst-primary-sidebar").is_hidden()
        page.get_by_label("Toggle primary sidebar").click()
        page.locator("#pst-primary-sidebar").wait_for()
    else:
        assert page.evaluate("[...document.querySelectorAll('.number button:not([hidden])')].every((b) => !b.offsetHeight || b.offsetHeight >= 32)")


def test_the_colours_follow_the_theme(page):
    visit(page, "#toy=lively")
    shot = "document.querySelector('.stage[data-name=logits] canvas').toDataURL()"
    light = page.evaluate(shot)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"document.documentElement.dataset.theme === 'dark' && {shot} !== {json.dumps(light)}")
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"{shot} === {json.dumps(light)}")


def test_printed(page):
    """On paper: every number once, then the path as a list."""
    visit(page, "#toy=lively&at=logits,1,2")
    page.locator(".formula button.n").first.click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    sheet = page.locator("#live-step .sheet")
    figures = page.evaluate("document.querySelectorAll('#live-step .sheet td').length")
    wanted = page.evaluate(
        "Object.entries(T.values({toy: 'lively'})).filter(([n]) => !n.includes('.via_') && !['source', 'decoder_input', 'targets'].includes(n)).length"
    )
    assert figures > 2000 and wanted > 200
    assert sheet.locator("li").count() == 2 and "z[i·1, am] = " in sheet.locator("li").first.evaluate("e => e.textContent")
    page.emulate_media(media="print")
    assert sheet.is_visible() and page.locator("#live-step .bar").is_hidden()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not sheet.count()


def test_without_scripts_a_sentence_stands_there(chromium, served):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{served}/{PAGE}")
    assert "Without scripts" in page.locator("#live-step").inner_text()
    context.close()


def test_its_scripts_are_small_and_load_nowhere_else(site):
    scripts = sum((site / "_static/live" / name).stat().st_size for name in ("step.js", "page.js", "figures.js"))
    assert scripts < 100_000
    for script, pages in (("page.js", [PAGE]), ("figures.js", FIGURES.values())):
        loading = [name for name in toc.pages() if f"live/{script}" in (site / f"{name}.html").read_text("utf-8")]
        assert sorted(loading) == sorted(page.removesuffix(".html") for page in pages)


# ---- the small figures --------------------------------------------------------------------------

FIGURES = {
    "temperature": "book/step/06-attention.html", "mask": "book/step/09-masked-attention.html", "tangent": "book/step/14-nudge.html",
    "projections": "book/step/18-layer-norm-backward.html", "adam": "book/step/25-adam.html",
}  # fmt: skip


@pytest.mark.parametrize("by", ["http", "file"])
def test_small_figures_say_what_the_formulas_say(chromium, served, site, by):
    """At every place of their tables; the numbers of the tables are the package's own, as tests/worked/test_live_figure.py says."""
    context = chromium.new_context()
    page = context.new_page()
    start, wrong = f"{served}/" if by == "http" else site.as_uri() + "/", []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: request.url.startswith((start, "data:")) or wrong.append(request.url))
    for key, address in FIGURES.items():
        page.goto(start + address)
        figure, ours = page.locator(".byhand-live"), live_figure(key)
        assert figure.locator("table").is_visible() or figure.get_attribute("data-on")
        figure.scroll_into_view_if_needed()
        page.locator(".byhand-live[data-on]").wait_for()
        for place in ours.stops:
            figure.locator("input").evaluate(
                "(e, x) => { if (e.type === 'checkbox') e.checked = x === 1; else e.value = x; e.dispatchEvent(new Event('input')) }", float(place)
            )
            place = float(figure.locator("input").input_value()) if not ours.control.check else place
            np.testing.assert_allclose(json.loads(figure.get_attribute("data-read")), ours.read(place), rtol=1e-9, atol=1e-12, err_msg=key)
        assert figure.get_by_role("status").inner_text() and figure.locator("svg, table").first.is_visible()
    context.close()
    assert not wrong


def test_a_wrong_formula_would_be_noticed(page):
    """A changed rule, a changed pattern, and a rule that is only shown wrongly."""
    changed = page.evaluate(
        """() => {
        const keep = structuredClone(byhandStep), found = [];
        for (const change of [
            (s) => { s.rules.mean.formula = "sum(@: x)"; },
            (s) => { s.stages.find((row) => row[0] === "encoder.0.self_attention.q")[4].b[1] = "c,kh"; },
            (s) => { s.rules.softmax.show = "exp(2 * z) / sum(@: exp(z))"; },
        ]) {
            Object.assign(byhandStep, structuredClone(keep));
            change(byhandStep);
            found.push([T.values({toy: "lively"}).loss[0], T.formulas({toy: "lively"}).wrong.length]);
        }
        Object.assign(byhandStep, keep);
        return found;
    }"""
    )
    loss = float(step.recorded(toy.lively(), 0.001)["loss"])
    assert abs(changed[0][0] - loss) > 1e-3 and abs(changed[1][0] - loss) > 1e-3 and changed[2][1]
