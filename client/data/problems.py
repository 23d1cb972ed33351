"""The list of everything that is wrong with a graph, gathered before anything is raised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fedtag.common.errors import DataError

ROWS_SHOWN = 20
VALUE_LENGTH = 40


def shown(value: object) -> str:
    """A value as it appears in a message: quoted, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= VALUE_LENGTH else text[: VALUE_LENGTH - 1] + "…"


@dataclass(frozen=True)
class Problem:
    """One kind of fault.

    Args:
        where: name of the file or table.
        what: the rule that is broken.
        remedy: what to do about it.
        rows: record numbers where it occurs, the first record after a header being 1; empty where it is in no row.
        values: the first offending values, as they are shown; empty where they say nothing.
        unit: what `rows` are numbers of: row, or line of a text file.
    """

    where: str
    what: str
    remedy: str
    rows: tuple[int, ...] = ()
    values: tuple[str, ...] = ()
    unit: str = "row"

    def __str__(self) -> str:
        end = "" if self.remedy.endswith("?") else "."
        if not self.rows:
            return f"{self.where}: {self.what}; {self.remedy}{end}"
        listed = [str(row) for row in self.rows[:ROWS_SHOWN]]
        if self.values:
            listed = [f"{row} ({value})" for row, value in zip(listed, self.values, strict=False)]
        more = len(self.rows) - len(listed)
        rows = f"{self.unit}{'s' if len(self.rows) > 1 else ''} {', '.join(listed)}" + (
            f" and {more} more" if more else ""
        )
        return f"{self.where}: {self.what} in {rows}; {self.remedy}{end}"


class Problems:
    """Collects what is wrong; one entry per kind of fault, with the rows where it occurs."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, where: str, what: str, remedy: str) -> None:
        """Adds a fault that is in no row."""
        self.found.append(Problem(where, what, remedy))

    def add_rows(
        self,
        where: str,
        what: str,
        rows: Iterable[int],
        remedy: str,
        values: Sequence[object] | None = None,
        unit: str = "row",
    ) -> None:
        """Adds one entry for all rows that share a fault; does nothing where there are none.

        Args:
            where, what, remedy: as of `Problem`.
            rows: record numbers, the first record after a header being 1.
            values: the offending value of each row.
            unit: as of `Problem`.
        """
        numbers = tuple(int(row) for row in rows)
        if not numbers:
            return
        named = tuple(shown(value) for value in (values or ())[:ROWS_SHOWN])
        for place, one in enumerate(self.found):
            # A table that is read in blocks meets the same fault in many of them.
            if one.rows and (one.where, one.what, one.remedy) == (where, what, remedy):
                both = (*one.values, *named)[:ROWS_SHOWN]
                self.found[place] = replace(one, rows=one.rows + numbers, values=both)
                return
        self.found.append(Problem(where, what, remedy, numbers, named, unit))

    @property
    def sentences(self) -> list[str]:
        """Each of them in words."""
        return [str(problem) for problem in self.found]

    def raise_any(self) -> None:
        """Raises one `DataError` with every sentence, if there is any."""
        if self.found:
            raise DataError(self.sentences)
