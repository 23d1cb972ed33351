"""The tracker: a CSV file in the run directory, a line for each number of a round."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

from fedtag.extension import TrackedRun


class Spreadsheet:
    """One file; what a resumed run does again stands there again, at the end.

    Args:
        run: that is tracked.
    """

    def __init__(self, run: TrackedRun) -> None:
        self.file = (run.folder / "rounds.csv").open("a", newline="", encoding="utf-8")
        self.writer = csv.writer(self.file)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write the numbers of a round."""
        self.writer.writerows((step, name, value) for name, value in scalars.items())
        self.file.flush()

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Close the file."""
        self.file.close()
