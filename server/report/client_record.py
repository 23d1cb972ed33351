"""What the page holds of every client over the rounds, for whoever picks a client and a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedtag.common.wording.visible import visible_line
from fedtag.server.pages.chart_block import short
from fedtag.server.tracking.rows import ClientRow

MOST_VALUES = 60_000
"""In the records of all runs of a page."""
ABSENT, FAILED, ANSWERED = -1, 0, 1
Read = Callable[[ClientRow], float | None]


def readers(score_names: Sequence[str]) -> dict[str, tuple[str, Read]]:
    """How a number is written and read, by its column."""
    fractions = (
        *("val_accuracy", "test_accuracy", "test_macro_f1", "test_balanced_accuracy", "test_auroc"),
        *("test_auprc", "local_test_accuracy"),
    )
    found: dict[str, tuple[str, Read]] = {name: ("percent", _field(name)) for name in fractions}
    found |= {f"score-{place}": ("percent", _score(name)) for place, name in enumerate(score_names)}
    return found | {
        "weight": ("number", _field("weight")),
        "divergence": ("number", lambda row: row.statistics.get("divergence")),
        "steps": ("whole", _field("steps")),
        "normaliser": ("number", _field("normaliser")),
    }


def client_record(
    rows: Sequence[ClientRow],
    clients: Sequence[str],
    shown: int | None,
    score_names: Sequence[str],
    runs: int,
) -> Mapping[str, Any]:
    """Numbers by column, client and round, of as many rounds as a page of several runs has room for.

    Args:
        rows: of clients.jsonl; of two of a client and a round the later counts.
        clients: in the order of the page's table.
        shown: the round that the table shows first.
        score_names: further ways of scoring.
        runs: how many share the page.
    """
    there = set(clients)
    found = {(row.client, row.round): row for row in rows if row.client in there}
    own = {
        name: (kind, read)
        for name, (kind, read) in readers(score_names).items()
        if any(read(row) is not None for row in found.values())
    }
    every = sorted({number for _, number in found})
    room = max(3, MOST_VALUES // max(1, runs * len(clients) * (len(own) + 1)))
    step = max(1, -(-len(every) // room))
    rounds = sorted({*every[::step], *every[-1:], *(number for number in every if number == shown)})
    table = [[found.get((client, number)) for number in rounds] for client in clients]
    return {
        "clients": [visible_line(client) for client in clients],
        "rounds": rounds,
        "all": len(every),
        "shown": shown,
        "states": [[_state(row) for row in line] for line in table],
        "columns": {
            name: {"kind": kind, "values": [[row and short(read(row)) for row in line] for line in table]}
            for name, (kind, read) in own.items()
        },
    }


def _state(row: ClientRow | None) -> int:
    if row is None:
        return ABSENT
    return ANSWERED if row.failed is None else FAILED


def _field(name: str) -> Read:
    return lambda row: getattr(row, name)


def _score(name: str) -> Read:
    return lambda row: row.scores.get(name)
