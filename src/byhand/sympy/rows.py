"""A mark for operations that treat every row on its own."""

from inspect import signature


def each_row(*names: str):
    """Says that an operation's result has one row for each row of the arguments named, made from that row alone.

    The other arguments are shared by all rows. So one row's rule is every row's rule, and need be derived only once.
    """

    def mark(operation):
        operation.each_row = names
        return operation

    return mark


def rows_of(operation, inputs: tuple, settings: dict):
    """The operation's inputs and settings for one row after another; all at once where rows are not independent.

    Inputs are anything with a `shape` and a `row(i)`; settings are sequences of rows where they are marked.
    """
    names = getattr(operation, "each_row", ())
    if not names:
        return [(inputs, settings)]
    own = [name in names for name in list(signature(operation).parameters)[: len(inputs)]]
    count = next(x.shape[0] for x, is_own in zip(inputs, own) if is_own)

    def row(i):
        part = tuple(x.row(i) if is_own else x for x, is_own in zip(inputs, own))
        return part, {name: (value[i],) if name in names else value for name, value in settings.items()}

    return [row(i) for i in range(count)]
