"""How many nodes got sums over their neighbours elsewhere, and what that took, for the report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedtag.common.errors import RunError
from fedtag.common.parts.neighbour_exchange.names import COUNTS, KEY, PARTS, REQUEST
from fedtag.server.pages.section import Recorded, ReportSection, Table
from fedtag.server.pages.wording import count, size
from fedtag.server.parts.neighbour_exchange.method import FILE
from fedtag.server.tracking.disclosures import Disclosure
from fedtag.server.tracking.durable_files import read_object
from fedtag.server.tracking.run_directory import RunDirectory

EXCHANGED = {
    REQUEST: "requests, between institutions",
    KEY: "keys, between institutions",
    f"{PARTS} up": "enciphered parts, to the server",
    f"{PARTS} down": "sums, to institutions",
}
"""The records of the exchange in the order of its phases: asked, given, taken."""
CAPTION = (
    "Boundary: nodes with neighbours at other institutions. Too few: those with fewer such neighbours than a sum "
    "needs. Missing: those whose sum did not come whole."
)


@dataclass(frozen=True)
class ExchangeView:
    """What the section shows.

    Args:
        counts: of each client, in the order of `COUNTS`; empty where nothing was recorded yet.
        total: over the clients.
    """

    counts: Mapping[str, tuple[int, ...]]
    total: tuple[int, ...]


def sections(recorded: Recorded) -> Sequence[ReportSection]:
    """Counts by client, and bytes by kind of record.

    Raises:
        RunError: a file is damaged.
    """
    view, traffic = view_exchange(recorded.directory), exchange_traffic(recorded.disclosures)
    took = "; ".join(f"{size(sent)} of {what}" for what, sent in traffic.items())
    rows = [(name, *map(count, counts)) for name, counts in [*view.counts.items(), ("all", view.total)]]
    table = Table(("Client",), ("Boundary", "Got a sum", "Too few", "Missing"), tuple(rows), CAPTION)
    if not view.counts and not traffic:
        return []
    return [
        ReportSection(
            "Sums over neighbours elsewhere",
            (f"The exchange took {took}.",) if traffic else (),
            tables=(table,) if view.counts else (),
        )
    ]


def view_exchange(run: RunDirectory) -> ExchangeView:
    """What a run directory says of the nodes that got sums.

    Raises:
        RunError: the file is damaged.
    """
    place = run.path / FILE
    record = read_object(place)
    if record is None:
        return ExchangeView({}, ())
    try:
        counts = {client: _counts(one) for client, one in record["clients"].items()}
        return ExchangeView(counts, _counts(record["total"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{place} is damaged ({error}): restore it from the run") from error


def exchange_traffic(disclosures: Sequence[Disclosure]) -> dict[str, int]:
    """Bytes of each kind of record of the exchange; empty without."""
    sizes: dict[str, int] = defaultdict(int)
    for row in disclosures:
        if row.kind == PARTS:
            sizes[f"{PARTS} {'up' if row.to_server else 'down'}"] += row.bytes
        elif row.kind in (REQUEST, KEY) and row.between_clients:
            sizes[row.kind] += row.bytes
    return {name: sizes[kind] for kind, name in EXCHANGED.items() if kind in sizes}


def _counts(record: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(record[name]) for name in COUNTS)
