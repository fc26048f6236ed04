"""Run this page, here: Python for the page itself, as scripts that load when a reader asks, by http and from a folder alike.

Pyodide and what is compiled for it lie in book/_vendor/pyodide; what is pure Python is packed from the environment. Each bundle is one
script that hands over its files in base64, since a page that was opened from a folder may load scripts, but nothing else.
"""

import gzip
import hashlib
import importlib.util
import io
import json
import tarfile
from base64 import b64encode
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple


class Later(NamedTuple):
    wheels: tuple = ()
    pure: tuple = ()
    brings: tuple = ()  # modules beside the pure ones
    own: tuple = ()
    files: tuple = ()


BOOK = Path(__file__).parents[1]
VENDOR, PAGE = BOOK / "_vendor/pyodide", BOOK / "_page"
ROOT = "/home/book"  # where the repository's files lie in the page
# What a page may need beside its own notebook, from the repository's root
FILES = ("book/claims.yml", "book/references.bib", "book/*/*.txt", "book/*/*.json", "book/*/*.yml", "book/workshop/*.py")
FILES += ("book/_tools/**/*.py", "book/_tools/**/*.json")
FILES += tuple(f"examples/**/*.{kind}" for kind in ("py", "json", "yml"))
PURE = ("byhand", "jaxtyping", "wadler_lindig", "yaml", "tqdm")
# Bundles that wait until one of these modules is imported: wheels, modules of this environment or of book/_page, and files.
LATER = {
    "sympy": Later(pure=("sympy", "mpmath")),
    "matplotlib": Later(
        wheels=("matplotlib", "contourpy", "kiwisolver", "pillow"),
        brings=("matplotlib", "mpl_toolkits", "contourpy", "kiwisolver", "PIL"),
        pure=("cycler", "packaging", "pyparsing", "dateutil", *filter(importlib.util.find_spec, ["six"])),  # an older dateutil brings and needs six
    ),
    "translate": Later(
        pure=("num2words", "babel"), brings=("tokenizers", "safetensors"),
        own=("tokenizers.py", "safetensors/*.py"), files=("examples/translate/trained/*",),
    ),
}
LEFT_OUT = {"tests", "testing", "benchmarks", "__pycache__"}
LOCALES = {"root", "en", "en_US", "fr", "fr_FR"}  # of Babel's thousand


def wheel(name):
    (file,) = VENDOR.glob(f"{name}-*.whl")
    return file.name, file.read_bytes()


def module_files(name):
    """(path below site-packages, bytes) of a pure Python module of this environment, without tests and what is compiled."""
    found = importlib.util.find_spec(name)
    try:  # some packages ask for their own version
        about = metadata.distribution(name)
        said = [(f"{name}-{about.version}.dist-info/METADATA", f"Name: {name}\nVersion: {about.version}\n".encode())]
    except metadata.PackageNotFoundError:
        said = []
    if not found.submodule_search_locations:
        return [(f"{name}.py", Path(found.origin).read_bytes()), *said]
    folder = Path(found.submodule_search_locations[0])
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix not in (".pyc", ".so", ".pyd", ".c", ".pyx"))
    inside = ((file.relative_to(folder), file) for file in files)
    kept = ((path, file) for path, file in inside if not set(path.parts) & LEFT_OUT and (path.parent.name != "locale-data" or path.stem in LOCALES))
    return said + [(f"{name}/{path.as_posix()}", file.read_bytes()) for path, file in kept]


def all_files(names):
    return [pair for name in names for pair in module_files(name)]


def found(patterns, folder):
    files = sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})
    return [(file.relative_to(folder).as_posix(), file.read_bytes()) for file in files]


def packed(files):
    """The files as one archive, the same bytes on every run."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), 9, mtime=0)


def book_files():
    from IPython.lib import pretty  # one module of IPython, which needs no other: it writes plain values as a notebook does

    modules = [*all_files(PURE), ("byhand_page.py", (PAGE / "runner.py").read_bytes()), ("byhand_pretty.py", Path(pretty.__file__).read_bytes())]
    return {"modules.tar.gz": packed(modules), "files.tar.gz": packed(found(FILES, BOOK.parent)), "worker.js": (PAGE / "worker.js").read_bytes()}


@cache
def bundles():
    """{name: {file name: bytes}}; the first three are what every page starts with."""
    python = {name: (VENDOR / name).read_bytes() for name in ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip")}
    python = {name + ".gz" * (".asm." in name): gzip.compress(content, 9, mtime=0) if ".asm." in name else content for name, content in python.items()}
    lock = json.loads((VENDOR / "pyodide-lock.json").read_text(encoding="utf-8"))
    python["pyodide-lock.json"] = json.dumps({"info": lock["info"], "packages": {}}).encode()  # what is there is unpacked, not asked for
    files = {"python": python, "numpy": dict([wheel("numpy")]), "book": book_files()}
    for name, bundle in LATER.items():
        files[name] = dict(map(wheel, bundle.wheels)) | {"modules.tar.gz": packed(all_files(bundle.pure) + found(bundle.own, PAGE))}
        if bundle.files:
            files[name]["files.tar.gz"] = packed(found(bundle.files, BOOK.parent))
    return files


def script(name, files):
    encoded = {file: b64encode(content).decode() for file, content in files.items()}
    return f"byhandRun.arrived({json.dumps(name)}, {json.dumps(encoded)});\n"


@cache
def written(folder):
    """Write the bundles as NAME.HASH.js: another content has another name, so that no page meets an older half. {name: (file, MB)}"""
    folder.mkdir(parents=True, exist_ok=True)
    names = {}
    for name, files in bundles().items():
        text = script(name, files)
        file = folder / f"{name}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.js"
        for old in set(folder.glob(f"{name}.*.js")) - {file}:
            old.unlink()
        file.write_text(text)
        names[name] = file.name, round(len(text) / 1e6, 1)
    return names


def add_control(app, pagename, templatename, context, doctree):
    """The script that offers to run the page, on each page with cells."""
    if app.builder.name != "html" or "cell_input" not in context.get("body", ""):
        return
    told = {"page": pagename, "version": metadata.version("byhand"), "root": ROOT, "bundles": written(Path(app.outdir, "_static/run"))}
    told["later"] = {name: [*bundle.pure, *bundle.brings] for name, bundle in LATER.items()}
    app.add_css_file("run/run.css")
    app.add_js_file("run/run.js", defer="defer", **{"data-run": json.dumps(told)})


def setup(app):
    app.connect("html-page-context", add_control)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
