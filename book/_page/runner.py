"""Runs the cells of a page inside it: what Jupyter's kernel does, as far as the book's pages ask for it.

Lives in a worker (worker.js), which hands over `emit`, called with each output, and `load`, which fetches a bundle of libraries.
"""

import ast
import builtins
import importlib.abc
import io
import linecache
import logging
import os
import sys
import time
import traceback
import types

from byhand_pretty import pretty

LIMIT = 200_000  # characters that a cell may show as text; what is drawn may be as long again, ten times over
PAUSE = 0.1  # seconds between two looks at what is being printed
FORMS = {"_repr_html_": "text/html", "_repr_markdown_": "text/markdown", "_repr_svg_": "image/svg+xml", "_repr_latex_": "text/latex"}


class Needed(BaseException):
    """A library that is at hand but not loaded; not an Exception, so that no `except` in between takes it for missing."""


class Bundles(importlib.abc.MetaPathFinder):
    """Asks for the bundle in which a library lies when it is first imported."""

    def __init__(self, bundles):
        self.waiting = {module: bundle for bundle, modules in bundles.items() for module in modules}

    def find_spec(self, name, path=None, target=None):
        if name in self.waiting:
            raise Needed(self.waiting[name])

    def arrived(self, bundle):
        self.waiting = {module: name for module, name in self.waiting.items() if name != bundle}


class Missing:
    """Stands for what could not be imported, so that the rest of the page runs; whoever uses it hears which library is missing."""

    def __init__(self, library):
        self.__dict__["library"] = library

    def __getattr__(self, name):
        raise missing(self.library)

    def __call__(self, *args, **kwargs):
        raise missing(self.library)


def missing(library):
    return ModuleNotFoundError(f"No module named {library!r}", name=library)


class Outputs:
    """What a cell puts out, in a notebook's form: neighbouring text is one output, and there is a limit."""

    def __init__(self, emit):
        self.emit, self.room, self.left_out, self.text, self.stream, self.last = emit, LIMIT, 0, "", None, 0.0
        self.drawn = 10 * LIMIT

    def write(self, stream, text):
        if stream != self.stream:
            self.flush()
            self.stream = stream
        self.text += text[: self.room]
        self.left_out += max(0, len(text) - self.room)
        self.room = max(0, self.room - len(text))
        if time.monotonic() - self.last > PAUSE:
            self.flush()

    def bundle(self, kind, data):
        self.flush()
        size = sum(map(len, data.values()))
        self.drawn -= size
        if self.drawn < 0:
            self.left_out += size
        else:
            self.emit({"output_type": kind, "data": data, "metadata": {}} | ({"execution_count": None} if kind == "execute_result" else {}))

    def flush(self):
        self.last = time.monotonic()
        if self.text:
            self.emit({"output_type": "stream", "name": self.stream, "text": self.text})
            self.text = ""
        if self.left_out:
            self.emit({"output_type": "left_out", "characters": self.left_out})


class Stream(io.TextIOBase):
    encoding = "utf-8"

    def __init__(self, name):
        self.name = name

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        state.outputs.write(self.name, text)
        return len(text)


def forms(value):
    """An object's mime bundle, as IPython would make it; a form that fails is left out."""
    data = {}
    own = getattr(value, "_repr_mimebundle_", None) if not isinstance(value, type) else None
    if own is not None:
        found = own(include=None, exclude=None)
        data.update(found[0] if isinstance(found, tuple) else found)
    elif not isinstance(value, type):
        for method, form in FORMS.items():
            found = getattr(value, method, lambda: None)()
            if found is not None:
                data[form] = found
    data.setdefault("text/plain", pretty(value))
    return {form: text for form, text in data.items() if isinstance(text, str)}


def display(*values, raw=False, **ignored):
    for value in values:
        state.outputs.bundle("display_data", value if raw else forms(value))


def bound(nodes):
    """The names that some statements would set."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):  # these keep theirs
            names |= bound(ast.iter_child_nodes(node))
    return names


class State:
    """The names of the page, and those that it lacks because a library is missing."""

    def __init__(self):
        self.page = types.ModuleType("__main__")
        self.page.__dict__.update(display=display)
        self.lost, self.outputs, self.count = {}, None, 0


state = State()


def start(folder, bundles):
    """A fresh page whose working folder is the notebook's."""
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    os.environ["MPLBACKEND"] = "agg"
    sys.path.insert(0, "")
    sys.modules["__main__"] = state.page
    builtins.display = display
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # it says that it looks for fonts, which takes a second
    state.finder = Bundles(bundles.to_py() if hasattr(bundles, "to_py") else bundles)
    sys.meta_path.append(state.finder)


async def run(source, emit, load, cell=0, whole=True):
    """Run one cell and say how it went: {"status": "ok" | "error"}, or {"status": "missing", "library": name}.

    With whole=False, for what it sets only: where it wants a bundle loaded, the rest is left out, and the status is "kept". A cell that needs a
    name from there gives {"status": "again", "cell": the cell that sets it}: that one first, whole, and then this one again.
    """
    state.count += 1
    name = f"<cell {state.count}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)  # for inspect.getsource and tracebacks
    outputs = state.outputs = Outputs(emit)
    sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")  # anew, whatever the last cell did to them
    lacking = None
    try:
        nodes = ast.parse(source, name).body
    except (SyntaxError, ValueError):
        return failed(outputs, name)
    names = state.page.__dict__
    for i, node in enumerate(nodes):
        while True:
            try:
                step(node, name, names, last=i == len(nodes) - 1 and not source.rstrip().endswith(";"))
            except Needed as needed:
                if not whole:
                    return lacks(outputs, cell, nodes[i:]) | {"status": "kept"}
                bundle = str(needed)
                await load(bundle)
                state.finder.arrived(bundle)
                importlib.invalidate_caches()
                continue
            except ModuleNotFoundError as error:
                lacking = (error.name or "").partition(".")[0]
                if not isinstance(node, ast.Import | ast.ImportFrom):
                    return lacks(outputs, lacking, nodes[i:])
                for lost in bound([node]):
                    names[lost] = Missing(lacking)
            except NameError as error:
                lacking = state.lost.get(error.name)
                if isinstance(lacking, int):
                    return {"status": "again", "cell": lacking}
                return failed(outputs, name) if lacking is None else lacks(outputs, lacking, nodes[i:])
            except BaseException:  # also SystemExit and KeyboardInterrupt: the page lives
                return failed(outputs, name)
            break
    outputs.flush()
    return {"status": "missing", "library": lacking} if lacking else {"status": "ok"}


def step(node, name, names, last):
    """Run one statement; the value of the last one is shown, if it is an expression."""
    if last and isinstance(node, ast.Expr):
        value = eval(compile(ast.Expression(node.value), name, "eval", dont_inherit=True), names)
        if value is not None:
            names["_"] = value
            state.outputs.bundle("execute_result", forms(value))
    else:
        exec(compile(ast.Module([node], []), name, "exec", dont_inherit=True), names)
        for found in bound([node]):
            state.lost.pop(found, None)


def lacks(outputs, library, rest):
    """A cell that stops for want of a library: the names it would have set are lost, not left at what they were.

    Under each stands the library that is missing, or the number of the cell whose turn is yet to come.
    """
    for name in bound(rest):
        state.page.__dict__.pop(name, None)
        state.lost[name] = library
    outputs.flush()
    return {"status": "missing", "library": library}


def failed(outputs, name):
    """The traceback, from the reader's own lines on."""
    kind, error, trace = sys.exc_info()
    while trace and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    lines = traceback.format_exception(kind, error, trace, limit=-20)
    outputs.flush()
    words = "".join(lines)
    outputs.emit({"output_type": "error", "ename": kind.__name__, "evalue": str(error)[:2000], "traceback": words[:4000] + words[4000:][-4000:]})
    return {"status": "error"}
