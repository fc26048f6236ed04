"""What the checks look at before they check (byhand.doors says when)."""

from collections.abc import Callable

from .. import doors


def checked(check: Callable | None = None) -> Callable:
    """doors.checked, without a look at shapes, since what does not fit is often what a check is there to tell, nor at numbers: arrays may be of any
    library and hold any real numbers, and a check takes them through as_floats, which says what is none."""
    return doors.checked(check or (lambda: None), floats=lambda **arrays: None)
