"""The list of everything that is wrong with a folder, gathered before anything is raised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedtag.common.errors import DataError

ROWS_SHOWN = 20
VALUE_LENGTH = 40


def shown(value: object) -> str:
    """A value as it appears in a message: quoted, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= VALUE_LENGTH else text[: VALUE_LENGTH - 1] + "…"


class Problems:
    """Collects sentences; one per kind of fault, with the first rows where it occurs."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def add(self, sentence: str) -> None:
        """Adds one finished sentence."""
        self.sentences.append(sentence)

    def add_rows(
        self,
        file: str,
        what: str,
        rows: Iterable[int],
        remedy: str,
        values: Sequence[object] | None = None,
    ) -> None:
        """Adds one sentence for all rows that share a fault; does nothing where there are none.

        Args:
            file: name of the file.
            what: the rule that is broken.
            rows: record numbers, the first record after a header being 1.
            remedy: what to do about it.
            values: the offending value of each row.
        """
        numbers = [int(row) for row in rows]
        if not numbers:
            return
        listed = [str(number) for number in numbers[:ROWS_SHOWN]]
        if values is not None:
            listed = [f"{number} ({shown(value)})" for number, value in zip(listed, values, strict=False)]
        more = len(numbers) - len(listed)
        where = f"row{'s' if len(numbers) > 1 else ''} {', '.join(listed)}"
        where += f" and {more} more" if more else ""
        self.add(f"{file}: {what} in {where}; {remedy}.")

    def raise_any(self) -> None:
        """Raises one `DataError` with every sentence, if there is any."""
        if self.sentences:
            raise DataError(self.sentences)
