"""What an import tells its owner: what it read, guessed, dropped and repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedtag.client.data.problems import Problem, Problems, shown
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural
from fedtag.graph.importing.source import LINE, Lines, Source

READ, GUESSED, DROPPED, REPAIRED, MADE, LEFT = "read", "guessed", "dropped", "repaired", "made", "left"
KINDS = (READ, GUESSED, MADE, REPAIRED, DROPPED, LEFT)
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
    return listed + (f" and {plural(more, 'other')}" if more > 0 else "")


def listed(columns: Sequence[str]) -> str:
    """Names of columns, the first ones of many."""
    more = len(columns) - MOST_LISTED
    return ", ".join(columns[:MOST_LISTED]) + (f" and {plural(more, 'other')}" if more > 0 else "")


def raise_any(problems: Problems, called: dict[str, str], *sources: Source | None) -> None:
    """Raise `DataError` with all that is wrong, in which columns have their owner's names.

    Args:
        problems: that were found.
        called: names of columns, by those that the contract gives them.
        sources: of the tables; rows of those that are text are told by their lines.
    """
    lines = {one.file: one.lines for one in sources if one is not None and one.lines is not None}
    if problems.found:
        raise DataError(
            [_in_names(str(_in_lines(one, lines.get(one.where))), called) for one in problems.found]
        )


def _in_lines(problem: Problem, lines: Lines | None) -> Problem:
    """The same by lines of the file, as an editor counts them."""
    if lines is None or problem.unit == LINE:
        return problem
    found = tuple(lines(problem.rows))
    return replace(problem, rows=found, unit=LINE) if len(found) == len(problem.rows) else problem


def _in_names(sentence: str, called: dict[str, str]) -> str:
    where, mark, what = sentence.partition(": ")
    first, space, rest = what.partition(" ")
    return f"{where}{mark}{called.get(first) or first}{space}{rest}"
