"""The conformance kit as a folder of the site, with its runners; the page on it links to the files.

    python book/_ext/kit.py FOLDER
"""

import shutil
import sys
from itertools import groupby
from pathlib import Path

from docutils import nodes

PAGE, SECTION = "book/workshop/kit", "take-it-along"
RUNNERS = Path(__file__).parents[2] / "examples/kit"


def write(folder):
    """The kit and its runners, in an empty folder; the names of the right files."""
    from byhand.check import kit  # a book without the page does not need the package

    shutil.rmtree(folder, ignore_errors=True)
    manifest = kit.write(folder)
    shutil.copytree(RUNNERS, folder / "runners", ignore=shutil.ignore_patterns("__pycache__", "c_runner"))
    return [entry["file"] for entry in manifest["right"]]


def files_of(app):
    """The right files in the site's folder, which is written once in a build."""
    if not hasattr(app, "kit_files"):
        app.kit_files = write(Path(app.outdir, "kit"))
    return app.kit_files


def link_to_files(app, doctree, page):
    """A list at the end of the page's section: each example in its formats, and what describes them."""
    if page != PAGE or app.builder.name != "html":
        return
    (section,) = (section for section in doctree.findall(nodes.section) if SECTION in section["ids"])
    lines = [(name, list(files)) for name, files in groupby(files_of(app), lambda file: file.partition(".")[0])]
    lines += [("all files, the broken ones too", ["manifest.json"]), ("the schema", ["kit_schema.json"]), ("the runners", ["runners/README.md"])]
    items = []
    for name, files in lines:
        words = nodes.paragraph("", "", nodes.Text(f"{name}: "))
        for number, file in enumerate(files):
            address = app.builder.get_relative_uri(page, "index").removesuffix("index.html") + f"kit/{file}"
            words += [nodes.Text(", " * bool(number)), nodes.reference("", file.rpartition(".")[2] if name in file else file, refuri=address, internal=True)]
        items.append(nodes.list_item("", words))
    section += nodes.bullet_list("", *items)


def setup(app):
    app.connect("doctree-resolved", link_to_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    print(f"{len(write(Path(sys.argv[1])))} right files in {sys.argv[1]}")
