"""What the classes of a run weighed, for the report."""

from __future__ import annotations

from collections.abc import Sequence

from fedtag.common.errors import RunError
from fedtag.server.pages.section import Recorded, Section, Table
from fedtag.server.pages.wording import fixed
from fedtag.server.tracking.run_directory import read_object
from fedtag_stranger.balance_names import SHARES, WEIGHTS
from fedtag_stranger.balance_server import FILE


def sections(recorded: Recorded) -> Sequence[Section]:
    """The balance of a finished run.

    Raises:
        RunError: the file is damaged.
    """
    path = recorded.directory.path / FILE
    record = read_object(path)
    if record is None:
        return []
    try:
        columns = zip(record["classes"], record[SHARES], record[WEIGHTS], strict=True)
        rows = tuple((name, fixed(share), fixed(weight)) for name, share, weight in columns)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} is damaged ({error}); restore it from the run") from error
    return [Section("Balance of classes", tables=(Table(("Class",), ("Share", "Weight"), rows),))]
