"""Print the whole book, built as one HTML page, into one PDF: tagged, with an outline and page numbers.

    python book/_tools/print_pdf.py FOLDER_OF_THE_ONE_PAGE_BUILD PDF
"""

import shutil
import sys
from pathlib import Path

from browser import serve, start, typeset

FOOTER = '<div style="font-size:8px;width:100%;text-align:center"><span class="pageNumber"></span> / <span class="totalPages"></span></div>'
LIGHT = "document.documentElement.dataset.theme = document.documentElement.dataset.mode = 'light'"
MARGIN = {"top": "18mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}


def print_pdf(folder, pdf):
    # The one-page build puts its page in a folder, but writes its addresses as seen from its root.
    (page,) = folder.glob("book/*.html")
    shutil.copy(page, folder / "whole.html")
    with serve(folder) as address, start() as browser:
        if browser is None:
            sys.exit("No Chromium, Chrome or Edge was found to print with. Install one, or read the site: make book")
        page = browser.new_page(color_scheme="light")
        page.set_default_timeout(300_000)
        page.goto(f"{address}/whole.html", wait_until="load")
        page.evaluate(LIGHT)
        typeset(page)
        page.pdf(
            path=pdf,
            format="A4",
            margin=MARGIN,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
            outline=True,
            tagged=True,
        )


def main(folder, pdf):
    print_pdf(folder, pdf)
    print(f"The book is in {pdf} ({pdf.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
