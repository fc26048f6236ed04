"""What the checks look at before they check (byhand.doors says when): arrays may be of any library, and hold any real numbers."""

from collections.abc import Callable
from typing import Any

from .. import doors
from .measure import as_floats


def checked(check: Callable | None = None) -> Callable:
    """doors.checked, without a look at shapes: what does not fit is often what a check is there to tell."""
    return doors.checked(check or (lambda: None), floats=_check_numbers)


def _check_numbers(**arrays: Any) -> None:
    for name, value in arrays.items():
        as_floats(value, name)
