"""What pages cost in a browser: to read the longest; to run some (seconds until Python is ready, for all cells, MB loaded); a click of the live step.

    python benchmarks/in_page.py [PAGE ...]     runs a few pages of the built site unless named (book/step/06-attention)

Clock time on this machine, the browser's start aside; `make book` must have built the site.
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build/html"
PAGES = ("book/step/06-attention", "book/step/21-decoder-walk", "book/stack/06a-block", "book/learn/01-translate")
IDLE = "() => byhandRun.state().ready && byhandRun.state().running === null && !byhandRun.state().waiting"
# Milliseconds until a click, and a change of the wanted word, is laid out; the slowest of some after the first of each.
LIVE = """() => {
    const slowest = (act) => Math.max(...[...Array(21).keys()].map((i) => {
        const begin = performance.now();
        act(i);
        document.body.getBoundingClientRect();
        return performance.now() - begin;
    }).slice(1));
    const pick = (i) => { const all = document.querySelectorAll("#live-step button[data-name]"); all[(7 * i) % all.length].click(); };
    const change = (i) => {
        const words = document.querySelector('[data-leaf="targets:1"]');
        words.value = String(i % 4);
        words.dispatchEvent(new Event("change", {bubbles: true}));
    };
    return [slowest(pick), slowest(change)];
}"""
LOADED = "performance.getEntriesByType('resource').filter((e) => /_static.run.(?!run\\.)/.test(e.name)).map((e) => e.name.split('/').pop())"


def reading(browser, name):
    """Seconds of the page's main thread until its first screen is there, and until every formula of the page is."""
    from browser import typeset

    page = browser.new_page()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def spent():
        return next(metric["value"] for metric in session.send("Performance.getMetrics")["metrics"] if metric["name"] == "TaskDuration")

    page.goto((SITE / f"{name}.html").as_uri(), wait_until="load")
    page.wait_for_function("() => [...document.querySelectorAll('.math')].filter((m) => m.getBoundingClientRect().top < innerHeight)"
                           ".every((m) => m.querySelector('mjx-container') || !m.offsetParent)")  # fmt: skip
    first = spent()
    typeset(page)
    whole = spent()
    page.close()
    return first, whole


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", default=PAGES)
    arguments = parser.parse_args(argv)
    if not (SITE / "_static/run").is_dir():
        print("pages in a browser: not measured, since `make book` has not built the site")
        return
    sys.path.append(str(ROOT / "book/_tools"))
    import browser as browsers

    print(f"{'page in a browser':28}{'cells':>7}{'of them run':>13}{'ready after':>13}{'all cells':>11}{'loaded':>10}", flush=True)
    with browsers.start() as browser, browsers.serve(SITE) as address:
        for name in arguments.pages if browser else ():
            page = browser.new_page()
            page.set_default_timeout(browsers.PATIENCE)
            page.goto(f"{address}/{name}.html", wait_until="load")
            begin = time.perf_counter()
            page.get_by_role("button", name="Run this page, here").click()
            page.wait_for_function(IDLE)
            ready = time.perf_counter()
            page.get_by_role("button", name="Run all").click()
            page.wait_for_function(IDLE)
            end = time.perf_counter()
            statuses = page.evaluate("byhandRun.cells.map((cell) => cell.status?.status)")
            size = sum((SITE / "_static/run" / file).stat().st_size for file in page.evaluate(LOADED)) / 1e6
            shown = f"{name.removeprefix('book/'):28}{len(statuses):>7}{statuses.count('ok'):>13}"
            print(f"{shown}{ready - begin:>11.1f} s{end - ready:>9.1f} s{size:>7.1f} MB", flush=True)
            page.close()
        if browser:
            longest = max(SITE.rglob("book/**/*.html"), key=lambda path: path.read_text("utf-8").count('class="math'))  # by its formulas
            longest = longest.relative_to(SITE).with_suffix("").as_posix()
            print("reading {}: {:.2f} s of the main thread to the first screen, {:.2f} s with all formulas".format(longest, *reading(browser, longest)))
            page = browser.new_page()
            page.goto(f"{address}/book/step/00-live.html", wait_until="load")
            print("the live step: at most {:.0f} ms for a click, {:.0f} ms for a change".format(*page.evaluate(LIVE)))


if __name__ == "__main__":
    main()
