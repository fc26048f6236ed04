"""One browser for the book's tools and tests: finding it, starting it, and serving a folder to it.

It is Chromium or a relative of it; BOOK_BROWSER=firefox or webkit takes playwright's own build of another.
"""

import contextlib
import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge")
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
PATIENCE = 600_000  # milliseconds, for every wait: only against hanging; on a busy machine what takes three seconds may take a minute
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers give little shared memory, and a browser that runs out of it dies
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find(playwright):
    """The path of a browser on this machine: Chromium, Chrome, Edge, or playwright's own; None without one."""
    installed = filter(None, map(shutil.which, NAMES))
    own = playwright.chromium.executable_path
    return next((path for path in (*installed, *PLACES, own) if Path(path).is_file()), None)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serve(folder):
    """Serve a folder on this machine alone; gives its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def start():
    """A running browser; None where the machine has none."""
    from playwright.sync_api import sync_playwright

    kind = os.environ.get("BOOK_BROWSER", "chromium")
    if kind not in ("chromium", "firefox", "webkit"):
        raise ValueError(f"BOOK_BROWSER was {kind!r}; it must be chromium, firefox or webkit")
    with sync_playwright() as playwright:
        path = find(playwright) if kind == "chromium" else None
        if kind == "chromium" and path is None:
            yield None
            return
        options = {"executable_path": path, "args": FLAGS} if path else {}
        browser = getattr(playwright, kind).launch(timeout=PATIENCE, **options)
        try:
            yield browser
        finally:
            browser.close()


def typeset(page):
    """Set all mathematics of the page, also what book.js leaves until it comes into view."""
    page.evaluate("async () => { await window.MathJax?.startup?.promise; window.byhandTypeset?.all() }")
