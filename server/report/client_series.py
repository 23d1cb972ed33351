"""A number of every client over the rounds: a line each, or the spread over many clients."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedtag.server.pages.chart import Chart, Key, line_chart
from fedtag.server.pages.plots import CSS_DASHES, SERIES_COLOURS, Band, Line
from fedtag.server.pages.wording import fixed
from fedtag.server.tracking.rows import ClientRow

LINES_SHOWN = SERIES_COLOURS
"""So many clients have a line of their own; of more, no eye tells the lines apart."""


@dataclass(frozen=True)
class ClientSeries:
    """Values by client and round; None where a client has a row but no such value."""

    values: Mapping[str, Mapping[int, float | None]]

    @property
    def is_empty(self) -> bool:
        """Whether no client has a value in any round."""
        return all(value is None for own in self.values.values() for value in own.values())

    @property
    def by_round(self) -> dict[int, dict[str, float]]:
        """The values of each round that has any, by client."""
        found: dict[int, dict[str, float]] = {}
        for client, own in self.values.items():
            for number, value in own.items():
                if value is not None:
                    found.setdefault(number, {})[client] = value
        return dict(sorted(found.items()))

    @property
    def differs(self) -> bool:
        """Whether two clients have other values in the same round."""
        return any(len(set(own.values())) > 1 for own in self.by_round.values())

    @property
    def constant(self) -> float | None:
        """The value that every client has in every round; None if there is no such one."""
        found = {value for own in self.by_round.values() for value in own.values()}
        return found.pop() if len(found) == 1 else None


def client_series(rows: Sequence[ClientRow], read: Callable[[ClientRow], float | None]) -> ClientSeries:
    """What `read` finds in the rows, clients in the order of their names; of two rows of a round the later."""
    values: dict[str, dict[int, float | None]] = {
        client: {} for client in sorted({row.client for row in rows})
    }
    for row in rows:
        values[row.client][row.round] = read(row)
    return ClientSeries({client: dict(sorted(own.items())) for client, own in values.items()})


def series_chart(title: str, note: str, series: ClientSeries, identity: str, digits: int = 3) -> Chart | None:
    """The chart of a series, None where it has no value.

    Args:
        title: with a capital.
        note: a sentence, or empty.
        identity: prefix of the ids in the SVG.
        digits: decimals of the numbers in words.
    """
    if series.is_empty:
        return None
    drawn = {
        client: own
        for client, own in series.values.items()
        if any(value is not None for value in own.values())
    }
    chart = separate_lines if len(drawn) <= LINES_SHOWN else spread_over_clients
    return chart(title, note, ClientSeries(drawn), identity, digits)


def separate_lines(title: str, note: str, series: ClientSeries, identity: str, digits: int) -> Chart | None:
    """One line a client."""
    lines = [
        Line(list(own), list(own.values()), place, place % len(CSS_DASHES))
        for place, own in enumerate(series.values.values())
    ]
    keys = [
        Key(client, place, CSS_DASHES[place % len(CSS_DASHES)]) for place, client in enumerate(series.values)
    ]
    if len(lines) > 1 and not series.differs:
        note = f"{note} All clients have the same, so their lines lie on each other.".strip()
    said = [f"{client}: {course(own, digits)}" for client, own in series.values.items()]
    return line_chart(
        title, note, "; ".join(said) + ".", lines, identity, keys, from_zero=True, whole=digits == 0
    )


def spread_over_clients(
    title: str, note: str, series: ClientSeries, identity: str, digits: int
) -> Chart | None:
    """Median, middle half and extremes of each round; the note names the clients at the ends of the last."""
    by_round = series.by_round
    rounds = list(by_round)
    columns = [sorted(own.values()) for own in by_round.values()]
    low, middle, high = (list(part) for part in zip(*map(quartiles, columns), strict=True))
    lines = [
        Line(rounds, middle, 0),
        Line(rounds, [column[-1] for column in columns], 1, 1),
        Line(rounds, [column[0] for column in columns], 2, 2),
    ]
    keys = (
        Key("median of the clients", 0),
        Key("middle half", 0, filled=True, faint=True),
        Key("largest", 1, CSS_DASHES[1]),
        Key("smallest", 2, CSS_DASHES[2]),
    )
    end = ends(by_round[rounds[-1]], digits)
    said = f"Over {len(series.values)} clients; in round {rounds[-1]} {end}."
    alt = (
        f"{said} Median {fixed(middle[0], digits)} in round {rounds[0]}, {fixed(middle[-1], digits)} in round "
        f"{rounds[-1]}."
    )
    bands = [Band(rounds, low, high, 0)]
    return line_chart(
        title,
        f"{note} {said}".strip(),
        alt,
        lines,
        identity,
        keys,
        from_zero=True,
        whole=digits == 0,
        bands=bands,
    )


def ends(values: Mapping[str, float], digits: int) -> str:
    """Which clients have the largest and the smallest value of a round."""
    most, least = max(values, key=lambda name: values[name]), min(values, key=lambda name: values[name])
    if values[most] == values[least]:
        return f"all have {fixed(values[most], digits)}"
    return (
        f"the largest is that of {most} ({fixed(values[most], digits)}), the smallest that of {least} "
        f"({fixed(values[least], digits)})"
    )


def quartiles(column: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile, linear between the values as in NumPy."""
    if len(column) == 1:
        return column[0], column[0], column[0]
    low, middle, high = statistics.quantiles(column, n=4, method="inclusive")
    return low, middle, high


def course(own: Mapping[int, float | None], digits: int) -> str:
    """From where to where a client's number went."""
    found = [(number, value) for number, value in own.items() if value is not None]
    (first, start), (last, end) = found[0], found[-1]
    if first == last:
        return f"{fixed(start, digits)} in round {first}"
    return f"{fixed(start, digits)} in round {first}, {fixed(end, digits)} in round {last}"
