"""Code under test gets copies: what it does to its arguments is its own affair, and no other run sees it."""

import copy
from typing import Any


def fresh(value: Any) -> Any:
    """A copy that shares nothing that can be written to: of an array, a tensor, a container of them, or any object that can be copied

    Raises ValueError for what cannot be copied.
    """
    if hasattr(value, "detach"):  # a torch tensor, known without importing torch; deepcopy refuses one in the middle of a graph
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) is dict:
        return {key: fresh(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(fresh(part) for part in value)
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise ValueError(f"an argument was {type(value).__name__}, which cannot be copied ({error}); a check gives the code under test copies") from error
