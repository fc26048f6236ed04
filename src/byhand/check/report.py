"""What a check gives back: one row for each thing looked at, true or false as a whole, and readable in a terminal and in a notebook."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One thing that was looked at.

    holds    True, False, or None where it could not be looked at
    worst    the largest deviation found (None where there is none to measure)
    where    the stage, the place in it, or both
    verdict  the same in words, for the table
    """

    name: str
    holds: bool | None
    worst: float | None = None
    where: str = ""
    verdict: str = ""


@dataclass(frozen=True, eq=False)
class Report:
    """Rows and a title. True where at least one row holds and none fails: what was not compared is no pass. Shown as a table."""

    title: str
    rows: tuple[Row, ...]

    def __bool__(self) -> bool:
        return not self.failures and any(row.holds for row in self.rows)

    @property
    def failures(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.holds is False)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r}; the rows are {', '.join(repr(row.name) for row in self.rows)}")

    def require(self) -> "Report":
        """The report itself, or an AssertionError that shows it."""
        if not self:
            raise AssertionError(f"\n{self!r}")
        return self

    def header(self) -> list[str]:
        return ["", "verdict", "where"]

    def cells(self, row: Row) -> list[str]:
        return [row.name, row.verdict, row.where if row.holds is False else ""]

    def shown(self) -> tuple[Row, ...]:
        """The rows that the table shows."""
        return self.rows

    def __repr__(self) -> str:
        return "\n".join([self.title, *_columns([self.header(), *map(self.cells, self.shown())])])

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, Any]:
        from byhand.worked.display import html_table  # only where a table is shown

        header = self.header()
        table = html_table(header, [self.cells(row) for row in self.shown()], caption=self.title, left=tuple(range(len(header))))
        return {"text/plain": repr(self), "text/html": table}


def within(bound: float) -> str:
    """A bound as the book writes it."""
    return f"within {bound:.3g}".replace("e-0", "e-")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def off_by(worst: float) -> str:
    return f"off by {worst:.2g}"


def place_text(place: tuple[int, ...]) -> str:
    return f"[{', '.join(str(i) for i in place)}]" if place else ""


def _columns(rows):
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
