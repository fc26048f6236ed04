"""Print the book, built as one HTML page, into one PDF: tagged, with an outline, and with contents that name pages.

    python book/_tools/print_pdf.py FOLDER_OF_THE_ONE_PAGE_BUILD PDF [book/step/06-attention.ipynb ...]

It is printed twice: which page a chapter or an answer begins on is known only once it is printed. Answers stand at the end;
the reference, which is for looking up, and other lists that only a program reads through, are left out.
"""

import shutil
import sys
from pathlib import Path

from browser import serve, start, typeset
from pypdf import PdfReader

FOOTER = '<div style="font-size:8px;width:100%;text-align:center"><span class="pageNumber"></span> / <span class="totalPages"></span></div>'
LIGHT = "document.documentElement.dataset.theme = document.documentElement.dataset.mode = 'light'"
MARGIN = {"top": "16mm", "bottom": "16mm", "left": "15mm", "right": "15mm"}
HERE = Path(__file__).parent
WITHOUT = ["book/appendix/reference/", "book/appendix/claims", "book/appendix/kill-matrix", "book/appendix/mutation", "genindex"]
# A formula becomes one picture with its TeX as its text: its hundreds of parts, each tagged, would make most of the file.
FORMULAS_AS_PICTURES = """async () => {
  const pictures = [...document.querySelectorAll('.math mjx-container')].map((formula) => {
    const svg = formula.querySelector('svg');
    const picture = new Image();
    picture.alt = formula.closest('.math').dataset.tex ?? 'formula';
    // As large as where it stands says, not as the picture alone would be: its unit is the height of a letter x.
    picture.style.cssText = `${svg.style.cssText}; width: ${svg.getAttribute('width')} !important`;
    picture.src = 'data:image/svg+xml,' + encodeURIComponent(new XMLSerializer().serializeToString(svg));
    formula.replaceChildren(picture);
    return picture;
  });
  for (const picture of pictures) await picture.decode();
}"""
# Each link into the document gets the number of the page that its target is on.
NUMBER = """(pages) => {
  for (const link of document.querySelectorAll('.print-contents a, .print-pointer a')) {
    const page = pages[decodeURIComponent(link.hash.slice(1))];
    (link.closest('li') ?? link).dataset.page = page ?? '?';
  }
}"""


def print_pdf(folder, pdf, pages=()):
    # The one-page build puts its page in a folder, but writes its addresses as seen from its root.
    (page,) = folder.glob("book/*.html")
    shutil.copy(page, folder / "whole.html")
    with serve(folder) as address, start() as browser:
        if browser is None:
            sys.exit("No Chromium, Chrome or Edge was found to print with. Install one, or read the site: make book")
        tab = browser.new_page(color_scheme="light")
        tab.set_default_timeout(600_000)
        tab.goto(f"{address}/whole.html", wait_until="load")
        tab.evaluate(LIGHT)
        tab.add_style_tag(path=HERE / "print.css")
        arrange = (HERE / "print.js").read_text(encoding="utf-8")
        printed = tab.evaluate(arrange, {"pages": list(pages), "without": WITHOUT})
        if missing := set(pages) - set(printed):
            sys.exit(f"Not in the book: {', '.join(sorted(missing))}")
        typeset(tab)
        tab.evaluate(FORMULAS_AS_PICTURES)
        for _ in range(2):
            tab.pdf(
                path=pdf,
                format="A4",
                margin=MARGIN,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=FOOTER,
                outline=True,
                tagged=True,
            )
            tab.evaluate(NUMBER, page_numbers(pdf))


def page_numbers(pdf):
    """{anchor: page} of everything in a PDF that a link inside it leads to."""
    reader = PdfReader(pdf)
    return {name.lstrip("/"): reader.get_destination_page_number(place) + 1 for name, place in reader.named_destinations.items()}


def main(folder, pdf, *pages):
    names = [page.removesuffix(".ipynb").removesuffix(".md").removeprefix("./") for page in pages]
    print_pdf(Path(folder), Path(pdf), names)
    print(f"Printed into {pdf} ({Path(pdf).stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main(*sys.argv[1:])
