"""The package's own source of a function, as the output of a cell.

It goes out as a fenced block in text/markdown, which Jupyter Book and JupyterLab both highlight in the colours of their
theme, with the bare source as text/plain.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable

from byhand.worked.display import Written


def show_source(*functions: Callable, docstring: bool = True) -> Written:
    """The source of one or more functions (a forward and its backward), from the file that ran, without the look at its arguments.

    docstring=False keeps only the docstring's first line, which is the formula, and no decorator at all.
    """
    if not functions:
        raise ValueError("functions was empty; it must name at least one function")
    code = "\n\n\n".join(_source(function, docstring) for function in functions)
    fence = "```"
    while fence in code:
        fence += "`"
    return Written(code, markdown=f"{fence}python\n{code}\n{fence}")


def _source(function, docstring: bool) -> str:
    try:
        code = textwrap.dedent(inspect.getsource(function)).rstrip()
    except (TypeError, OSError) as error:
        raise ValueError(f"functions held {function!r}, whose source cannot be found; it must be a function or a class written in Python") from error
    node = ast.parse(code).body[0]
    lines = code.splitlines()
    first = node.body[0] if getattr(node, "body", None) else None
    if not docstring and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        summary = inspect.cleandoc(first.value.value).splitlines()[0]
        lines[first.lineno - 1 : first.end_lineno] = [f'{" " * first.col_offset}"""{summary}"""']
    if any("checked" in ast.unparse(part) or "upstream" in ast.unparse(part) for part in getattr(node, "decorator_list", ())) or not docstring:
        lines = lines[node.lineno - 1 :]
    return "\n".join(lines)
