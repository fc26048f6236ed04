"""The package's own source of a function, as the output of a cell.

It goes out as a fenced block in text/markdown, which Jupyter Book and JupyterLab both highlight in the colours of their
theme, with the bare source as text/plain.
"""

import inspect
import textwrap
from collections.abc import Callable

from byhand.worked.display import Written


def show_source(*functions: Callable, docstring: bool = True) -> Written:
    """The source of one or more functions (a forward and its backward), from the file that ran.

    docstring=False keeps only the docstring's first line, which is the formula, and no decorator.
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
    return code if docstring else _first_line_only(code)


def _first_line_only(code: str) -> str:
    import ast

    node = ast.parse(code).body[0]
    first = node.body[0] if getattr(node, "body", None) else None
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)):
        return code
    lines = code.splitlines()
    summary = inspect.cleandoc(first.value.value).splitlines()[0]
    indent = " " * first.col_offset
    return "\n".join([*lines[node.lineno - 1 : first.lineno - 1], f'{indent}"""{summary}"""', *lines[first.end_lineno :]])
