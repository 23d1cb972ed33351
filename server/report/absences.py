"""Who was left out of a round, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedtag.server.tracking.rows import ClientRow

MOST_SHOWN = 12
NAMES_SHOWN = 3
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


@dataclass(frozen=True)
class Absence:
    """One reason, the clients to whom it applied, with how often, and the rounds.

    `counted` is how often the update had been combined all the same, and only the scores of the round's model
    are missing.
    """

    reason: str
    clients: tuple[tuple[str, int], ...]
    rounds: tuple[int, ...]
    counted: int

    @property
    def times(self) -> int:
        """How often it applied."""
        return sum(times for _, times in self.clients)

    @property
    def who(self) -> str:
        """The clients with the most absences, and how many more there are."""
        if len(self.clients) == 1:
            return self.clients[0][0]
        shown = self.clients if len(self.clients) <= NAMES_SHOWN + 1 else self.clients[:NAMES_SHOWN]
        more = len(self.clients) - len(shown)
        names = ", ".join(f"{client} ({times}×)" for client, times in shown)
        return f"{names} and {more} more" if more else names


def absences(rows: Sequence[ClientRow]) -> list[Absence]:
    """One entry for each client and reason; where those would be many, one for each kind of reason.

    Reasons are of one kind if nothing but numbers in them differs; their numbers then become dots.
    """
    failed = [row for row in rows if row.failed is not None]
    apart: dict[tuple[str, str], list[ClientRow]] = {}
    for row in failed:
        apart.setdefault((row.client, row.failed or ""), []).append(row)
    if len(apart) <= MOST_SHOWN:
        return [_absence(reason, group) for (_, reason), group in apart.items()]
    kinds: dict[str, list[ClientRow]] = {}
    for row in failed:
        kinds.setdefault(NUMBER.sub("…", row.failed or ""), []).append(row)
    found = []
    for kind, group in kinds.items():
        exact = {row.failed or "" for row in group}
        found.append(_absence(exact.pop() if len(exact) == 1 else kind, group))
    return sorted(found, key=lambda absence: -absence.times)


def without_training(rows: Sequence[ClientRow]) -> tuple[str, ...]:
    """Clients that answered and never had a training node, so that they have no weight."""
    reported: Mapping[str, set[int]] = {row.client: set() for row in rows}
    for row in rows:
        if row.train_nodes is not None:
            reported[row.client].add(row.train_nodes)
    return tuple(sorted(client for client, numbers in reported.items() if numbers == {0}))


def _absence(reason: str, group: Sequence[ClientRow]) -> Absence:
    times = Counter(row.client for row in group)
    return Absence(
        reason=reason,
        clients=tuple(sorted(times.items(), key=lambda entry: (-entry[1], entry[0]))),
        rounds=tuple(sorted({row.round for row in group})),
        counted=sum(bool(row.weight) for row in group),
    )
