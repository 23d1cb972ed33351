"""What an import tells its owner: what it read, guessed, dropped and repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fedtag.client.data.problems import Problems, shown
from fedtag.common.errors import DataError

READ, GUESSED, DROPPED, REPAIRED, MADE = "read", "guessed", "dropped", "repaired", "made"
KINDS = (READ, GUESSED, MADE, REPAIRED, DROPPED)
"""In the order in which they are shown."""
SHOWN = 3
MOST_LISTED = 50


class Account:
    """Sentences by kind, in the order in which they were told."""

    def __init__(self) -> None:
        self._told: list[tuple[str, str]] = []

    def tell(self, kind: str, sentence: str) -> None:
        """Adds a sentence of one of `KINDS`."""
        self._told.append((kind, sentence))

    def of(self, kind: str) -> tuple[str, ...]:
        """All of one kind."""
        return tuple(sentence for one, sentence in self._told if one == kind)


def examples(values: Iterable[object]) -> str:
    """The most frequent of several values, with how many there are of others."""
    counted = Counter(values)
    listed = ", ".join(shown(value) for value, _ in counted.most_common(SHOWN))
    more = len(counted) - SHOWN
    return listed + (f" and {more:,} others" if more > 0 else "")


def listed(columns: Sequence[str]) -> str:
    """Names of columns, the first ones of many."""
    more = len(columns) - MOST_LISTED
    return ", ".join(columns[:MOST_LISTED]) + (f" and {more:,} others" if more > 0 else "")


def raise_any(problems: Problems, called: dict[str, str]) -> None:
    """Raise `DataError` with all that is wrong, in which columns have their owner's names.

    Args:
        problems: that were found.
        called: names of columns, by those that the contract gives them.
    """
    if problems.found:
        raise DataError([_in_names(str(problem), called) for problem in problems.found])


def _in_names(sentence: str, called: dict[str, str]) -> str:
    where, mark, what = sentence.partition(": ")
    first, space, rest = what.partition(" ")
    return f"{where}{mark}{called.get(first) or first}{space}{rest}"
