"""What crossed the network as a table for pandas; docs/disclosures.md is the contract of its columns."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fedtag.server.tracking.disclosures import Disclosure

WHOLE = ("round", "count", "bytes")
NUMBERS = ("count", "bytes", "counts", "sizes")
COLUMNS = ("round", "phase", "kind", "from", "to", *NUMBERS, "reveals", "protected")


def disclosure_frame(rows: Sequence[Disclosure]) -> pd.DataFrame:
    """A row a disclosure, in the order of the file."""
    frame = pd.DataFrame(map(_cells, rows), columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(WHOLE, "int64"))


def _cells(row: Disclosure) -> tuple[object, ...]:
    ends = list(row.every(row.senders)), list(row.every(row.receivers))
    numbers = row.count, row.bytes, list(row.every(row.counts)), list(row.every(row.sizes))
    return row.round, row.phase, row.kind, *ends, *numbers, row.reveals, row.protected
