"""What crossed the network as a table for pandas; docs/disclosures.md is the contract of its columns."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fedtag.server.tracking.disclosures import Disclosure

WHOLE = ("round", "count", "bytes")
EVERY = ("from", "to", "counts", "sizes")
"""Columns of lists, which `DataFrame.explode` takes together to a row for each who sent to whom."""
COLUMNS = (
    "round",
    "phase",
    "kind",
    "from",
    "to",
    "count",
    "bytes",
    "counts",
    "sizes",
    "reveals",
    "protected",
)


def disclosure_frame(rows: Sequence[Disclosure]) -> pd.DataFrame:
    """A row a disclosure, in the order of the file."""
    frame = pd.DataFrame(map(_cells, rows), columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(WHOLE, "int64"))


def _cells(row: Disclosure) -> tuple[object, ...]:
    senders, receivers, counts, sizes = (
        list(row.every(column)) for column in (row.senders, row.receivers, row.counts, row.sizes)
    )
    numbers = row.count, row.bytes, counts, sizes
    return row.round, row.phase, row.kind, senders, receivers, *numbers, row.reveals, row.protected
