"""What the classes of a run weighed, for the report."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fedtag.errors import RunError
from fedtag.extension import Recorded, ReportSection, Table
from fedtag_example.class_balance.names import FILE, SHARES, WEIGHTS


def sections(recorded: Recorded) -> Sequence[ReportSection]:
    """The balance of a finished run; nothing of one that goes on.

    Raises:
        RunError: the file is damaged.
    """
    path = recorded.directory.path / FILE
    if not path.exists():
        return []
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        columns = zip(record["classes"], record[SHARES], record[WEIGHTS], strict=True)
        rows = tuple((name, f"{share:.3f}", f"{weight:.3f}") for name, share, weight in columns)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} is damaged ({error}); restore it from the run") from error
    return [ReportSection("Balance of classes", tables=(Table(("Class",), ("Share", "Weight"), rows),))]
