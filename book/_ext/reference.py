"""The API reference, made from the package's source text: nothing is imported, so building the site needs no PyTorch.

    ```{reference} byhand.numpy
    ```

lists each module of the package with its public functions and classes: signature, docstring, an entry in the index, and a link to the
source, which is a page of the site, so that it opens without a network too.
"""

import ast
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

SOURCE = Path("src")
PAGES = "_source"  # the folder of the pages that show a module's source


def module_files(root, name):
    """(dotted name, file) of a module, or of the modules in a package, in order; those that start with _ are left out."""
    path = root / SOURCE / name.replace(".", "/")
    if not path.is_dir():
        return [(name, path.with_suffix(".py"))]
    files = sorted(file for file in path.glob("*.py") if not file.name.startswith("_"))
    return [(f"{name}.{file.stem}", file) for file in files]


def public(body, kinds):
    return [node for node in body if isinstance(node, kinds) and not node.name.startswith("_") and ast.get_docstring(node)]


def signature(function, skip_self=False):
    arguments = function.args
    if skip_self:
        arguments = ast.arguments(**{**vars(arguments), "args": arguments.args[1:]})
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{function.name}({ast.unparse(arguments)}){returns}"


def described(kind, head, module, docstring, inside=()):
    """MyST lines for one function or class. The docstring keeps its line breaks: its columns are aligned by spaces."""
    lines = [f"{{py:{kind}}} {head}", f":module: {module}", "", "```text", *docstring.splitlines(), "```", *inside]
    fence = "`" * (5 if kind == "class" else 4)
    return [fence + lines[0], *lines[1:], fence, ""]


def class_lines(node, module):
    initial = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
    head = node.name + (signature(initial, skip_self=True).removeprefix("__init__") if initial else "")
    methods = [
        line
        for method in public(node.body, ast.FunctionDef)
        for line in described("method", signature(method, skip_self=True), module, ast.get_docstring(method))
    ]
    return described("class", head, module, ast.get_docstring(node), methods)


def module_lines(tree, module):
    """MyST lines for everything public in a module, in the order of its source."""
    lines = []
    for node in public(tree.body, (ast.FunctionDef, ast.ClassDef)):
        if isinstance(node, ast.ClassDef):
            lines += class_lines(node, module)
        else:
            lines += described("function", signature(node), module, ast.get_docstring(node))
    return lines


class Reference(SphinxDirective):
    required_arguments = 1

    def run(self):
        sections = []
        for module, file in module_files(Path(self.env.srcdir), self.arguments[0]):
            self.env.note_dependency(str(file))
            tree = ast.parse(file.read_text(encoding="utf-8"))
            lines = module_lines(tree, module)
            if lines:
                section = self.section(module, file, ast.get_docstring(tree) or "", lines)
                link_to_source(section, tree, "../" * self.env.docname.count("/") + source_page(module) + ".html")
                sections.append(section)
        metadata = self.env.metadata[self.env.docname]
        metadata["reference"] = f"{metadata.get('reference', '')} {self.arguments[0]}"
        if not sections:
            raise self.error(f"{self.arguments[0]} has nothing public to list")
        return sections

    def section(self, module, file, docstring, lines):
        node = nodes.section(ids=[module.replace(".", "-").replace("_", "-")], names=[module])
        node += nodes.title(module, module.rpartition(".")[2])
        self.state.document.note_implicit_target(node, node)
        node += nodes.paragraph("", " ".join(docstring.partition("\n\n")[0].split()))
        self.state.nested_parse(StringList(lines, source=str(file)), 0, node)
        return node


def source_page(module):
    return f"{PAGES}/{module.replace('.', '/')}"


def link_to_source(section, tree, page):
    """Behind each signature a link to the line at which the definition starts, decorators included."""
    starts = {}
    for node in ast.walk(tree):
        for item in [node, *getattr(node, "body", [])] if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
                name = item.name if item is node else f"{node.name}.{item.name}"
                starts[name] = min([item, *item.decorator_list], key=lambda part: part.lineno).lineno
    for head in section.findall(addnodes.desc_signature):
        link = nodes.reference("", "source", refuri=f"{page}#line-{starts[head['fullname']]}", internal=True, classes=["viewcode-link"])
        head += link


def source_pages(app):
    """A page for each module that the reference lists: its source, every line with an anchor."""
    names = " ".join(metadata.get("reference", "") for metadata in app.env.metadata.values()).split()
    modules = {module for name in names for module in module_files(Path(app.srcdir), name)}
    formatter = HtmlFormatter(linenos="inline", lineanchors="line", anchorlinenos=True, cssclass="highlight")
    for module, file in sorted(modules):
        code = highlight(file.read_text(encoding="utf-8"), PythonLexer(), formatter)
        yield source_page(module), {"title": module, "body": f"<h1>{module}</h1>\n{code}"}, "page.html"


def setup(app):
    app.add_directive("reference", Reference)
    app.connect("html-collect-pages", source_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
