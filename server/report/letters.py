"""The section of the report on condensed graphs, and on what clients showed one another."""

from __future__ import annotations

from collections.abc import Sequence

from fedtag.common.secure.phases import SHARES
from fedtag.common.wording.counts import plural
from fedtag.server.pages.chart import Chart, Series, line_chart
from fedtag.server.pages.section import Recorded, ReportSection, Table
from fedtag.server.pages.wording import count, percent, size, unit_of
from fedtag.server.tracking.disclosures import Crossing, Disclosure
from fedtag.server.tracking.rows import ClientRow

CONDENSED = (
    "Copied: condensed nodes whose features are those of a real node. Close: those nearer to a real node than any "
    "other real node is. Both are signs of a leak."
)
SHOWN = "What each client showed to whom. The server carried it sealed, and saw sizes, numbers and addresses."


def shared_sections(recorded: Recorded) -> Sequence[ReportSection]:
    """Graphs that clients condensed by themselves, and letters between clients; none where there are neither."""
    letters = [row for row in recorded.disclosures if row.between_clients and row.kind != SHARES]
    found = []
    if condensed := condensed_rows(recorded.clients):
        table = Table(("Client",), ("Nodes", "Condensed", "Copied", "Close"), condensed, CONDENSED)
        found.append(ReportSection("Condensed graphs", tables=(table,)))
    if letters:
        shown = Table(("From", "To", "Kind"), ("Records", "Bytes"), shown_rows(letters), SHOWN)
        charts = letter_charts(letters)
        found.append(ReportSection("Between clients", tables=(shown,), charts=tuple(charts)))
    return found


def condensed_rows(clients: Sequence[ClientRow]) -> tuple[tuple[str, ...], ...]:
    """What clients told last of their condensed graphs, by client."""
    reported = {row.client: row.condensation for row in clients if row.condensation}
    return tuple(
        (
            client,
            count(one.get("nodes")),
            count(one.get("core")),
            percent(one.get("copied")),
            percent(one.get("close")),
        )
        for client, one in sorted(reported.items())
    )


def shown_rows(letters: Sequence[Disclosure]) -> tuple[tuple[str, ...], ...]:
    """A row for each pair of clients and kind of record."""
    totals: dict[tuple[str, str, str], list[Crossing]] = {}
    for row in letters:
        for one in row.crossings:
            totals.setdefault((one.sender, one.receiver, row.kind), []).append(one)
    return tuple(
        (*pair, count(sum(one.count for one in crossed)), size(sum(one.bytes for one in crossed)))
        for pair, crossed in sorted(totals.items())
    )


def letter_charts(letters: Sequence[Disclosure]) -> list[Chart]:
    """Bytes between clients by kind over the rounds."""
    by_round: dict[str, dict[int, int]] = {}
    for row in letters:
        kind = by_round.setdefault(row.kind, {})
        kind[row.round] = kind.get(row.round, 0) + row.bytes
    unit, scale = unit_of(float(max(value for kind in by_round.values() for value in kind.values())))
    last = max(number for kind in by_round.values() for number in kind)
    rounds = range(1, last + 1)
    lines = [
        Series(name, rounds, [sizes.get(number, 0) / scale for number in rounds], index, index)
        for index, (name, sizes) in enumerate(sorted(by_round.items()))
    ]
    alt = f"Sealed letters between clients: {sum(row.bytes for row in letters)} bytes over {plural(last, 'round')}."
    chart = line_chart("Between clients, per round", "", alt, lines, y_label=unit, from_zero=True)
    return [chart] if chart else []
