"""A number of every client over the rounds: a line each, or the spread over many clients."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedtag.common.wording.counts import plural
from fedtag.common.wording.scoring import capital
from fedtag.server.pages.chart import SERIES_COLOURS, Chart, Kind, Series, line_chart
from fedtag.server.pages.wording import fixed, percent
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


def series_chart(
    what: str,
    note: str,
    series: ClientSeries,
    column: str,
    run: int = 0,
    kind: Kind = "number",
) -> Chart | None:
    """The chart of a series, None where it has no value.

    Args:
        what: its numbers are.
        note: a sentence, or empty.
        column: of the record of clients, in which the page finds the values of each client.
        run: whose record that is.
        kind: how the numbers are written.
    """
    drawn = {
        client: own
        for client, own in series.values.items()
        if any(value is not None for value in own.values())
    }
    if not drawn:
        return None
    made = separate_lines if len(drawn) <= LINES_SHOWN else spread_over_clients
    lines, said, alt = made(ClientSeries(drawn), kind)
    note = f"{note} {said}".strip()
    from_zero = kind != "percent"
    title = f"{capital(what)} of each client"
    return line_chart(
        title, note, alt, lines, y_label=what, kind=kind, from_zero=from_zero, column=column, run=run
    )


def separate_lines(series: ClientSeries, kind: Kind) -> tuple[list[Series], str, str]:
    """One line a client, what the caption says of them, and the course of each."""
    lines = [
        Series(client, list(own), list(own.values()), place, place)
        for place, (client, own) in enumerate(series.values.items())
    ]
    alike = len(lines) > 1 and not series.differs
    said = "; ".join(f"{client}: {course(own, kind)}" for client, own in series.values.items())
    return lines, "All clients have the same, so their lines lie on each other." if alike else "", f"{said}."


def spread_over_clients(series: ClientSeries, kind: Kind) -> tuple[list[Series], str, str]:
    """Median, middle half and extremes of each round, and who is at the ends of the last."""
    by_round = series.by_round
    rounds = list(by_round)
    columns = [sorted(own.values()) for own in by_round.values()]
    low, middle, high = (list(part) for part in zip(*map(quartiles, columns), strict=True))
    lines = [
        Series("middle half", rounds, middle, 0, drawn="band", low=low, high=high),
        Series("median of the clients", rounds, middle, 0),
        Series("largest", rounds, [column[-1] for column in columns], 1, 1),
        Series("smallest", rounds, [column[0] for column in columns], 2, 2),
    ]
    said = f"Over {plural(len(series.values), 'client')}; in round {rounds[-1]} {ends(by_round[rounds[-1]], kind)}."
    alt = (
        f"{said} Median {shown(middle[0], kind)} in round {rounds[0]}, {shown(middle[-1], kind)} in round "
        f"{rounds[-1]}."
    )
    return lines, said, alt


def shown(value: float | None, kind: Kind) -> str:
    """A number in words."""
    return percent(value) if kind == "percent" else fixed(value, 0 if kind == "whole" else 3)


def ends(values: Mapping[str, float], kind: Kind) -> str:
    """Which clients have the largest and the smallest value of a round."""
    most, least = max(values, key=lambda name: values[name]), min(values, key=lambda name: values[name])
    if values[most] == values[least]:
        return f"all have {shown(values[most], kind)}"
    return (
        f"the largest is that of {most} ({shown(values[most], kind)}), the smallest that of {least} "
        f"({shown(values[least], kind)})"
    )


def quartiles(column: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile, linear between the values as in NumPy."""
    if len(column) == 1:
        return column[0], column[0], column[0]
    low, middle, high = statistics.quantiles(column, n=4, method="inclusive")
    return low, middle, high


def course(own: Mapping[int, float | None], kind: Kind) -> str:
    """From where to where a client's number went."""
    found = [(number, value) for number, value in own.items() if value is not None]
    (first, start), (last, end) = found[0], found[-1]
    if first == last:
        return f"{shown(start, kind)} in round {first}"
    return f"{shown(start, kind)} in round {first}, {shown(end, kind)} in round {last}"
