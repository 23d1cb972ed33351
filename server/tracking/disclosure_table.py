"""Disclosures of a whole run, summed by what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedtag.server.tracking.disclosures import SERVER, Disclosure

NAMES_SHOWN = 2


@dataclass(frozen=True)
class DisclosureTotal:
    """All records of one kind with the same protection: who sent them to whom, how many, how large."""

    kind: str
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    count: int
    bytes: int
    reveals: str
    protected: str
    rounds: tuple[int, ...]

    @property
    def first_round(self) -> int:
        """The earliest round; 0 is before the first."""
        return self.rounds[0]

    @property
    def last_round(self) -> int:
        """The latest round."""
        return self.rounds[-1]

    @property
    def to_server(self) -> bool:
        """Whether the server is who received the records."""
        return SERVER in self.receivers


def disclosure_totals(rows: Sequence[Disclosure]) -> list[DisclosureTotal]:
    """One total for each kind, direction, meaning and protection, in the order of first appearance.

    Clients are taken together; what the server sends, what it receives and what passes it stay apart.
    """
    groups: dict[tuple[str, str, str, bool, bool], list[Disclosure]] = {}
    for row in rows:
        key = (row.kind, row.reveals, row.protected, row.from_server, row.to_server)
        groups.setdefault(key, []).append(row)
    return [
        DisclosureTotal(
            kind=kind,
            senders=tuple(dict.fromkeys(name for row in group for name in row.senders)),
            receivers=tuple(dict.fromkeys(name for row in group for name in row.receivers)),
            count=sum(row.count for row in group),
            bytes=sum(row.bytes for row in group),
            reveals=reveals,
            protected=protected,
            rounds=tuple(sorted({row.round for row in group})),
        )
        for (kind, reveals, protected, *_), group in groups.items()
    ]


def listed(names: Sequence[str]) -> str:
    """The first names and how many more there are."""
    if len(names) <= NAMES_SHOWN + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_SHOWN])} and {len(names) - NAMES_SHOWN} more"
