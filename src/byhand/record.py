"""One record for every floor: it is asked for and handed down, and keeps each stage of a pass under its dotted name."""

from typing import Any


class Record:
    """Keeps what it is given in `kept`, in the order of computing.

    record("out", y)             keeps y as "out" and gives it back, so that it can wrap an expression
    record.inside("norm_1")      the same record with "norm_1." before every name that follows
    record.via("x", key=a, …)    the ways back to a stage that was used more than once, as "x.via_key", …
    record["norm_1.out"]         what was kept

    A pass without one is handed `nothing`, which keeps nothing.
    """

    on = True

    def __init__(self, kept: dict[str, Any] | None = None, prefix: str = ""):
        self.kept, self.prefix = {} if kept is None else kept, prefix

    def __call__(self, name: str, value: Any) -> Any:
        self.kept[self.prefix + name] = value
        return value

    def inside(self, name: str) -> "Record":
        return Record(self.kept, f"{self.prefix}{name}.")

    def via(self, name: str, **ways: Any) -> None:
        if len(ways) > 1:  # what was used once has no ways to tell apart
            self.kept.update({f"{self.prefix}{name}.via_{way}": value for way, value in ways.items()})

    def __getitem__(self, name: str) -> Any:
        return self.kept[self.prefix + name]


class Nothing(Record):
    """Hands everything on and keeps none of it."""

    on = False

    def __call__(self, name: str, value: Any) -> Any:
        return value

    def inside(self, name: str) -> "Nothing":
        return self

    def via(self, name: str, **ways: Any) -> None:
        pass


nothing = Nothing()
