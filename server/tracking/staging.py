"""A run directory that is made beside its place, and is there whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedtag.server.tracking.run_directory import CONFIG, CONTRACT, RunDirectory, require_free


@contextmanager
def staged(out: Path) -> Iterator[RunDirectory]:
    """An empty run directory that goes to its place with all that was put into it; nothing is left where that fails.

    Files by which a folder is a run come last, and of these its settings.

    Args:
        out: the place, absent or an empty folder.

    Raises:
        RunError: something else is there.
    """
    require_free(out)
    home = next(parent for parent in out.parents if parent.is_dir())
    with tempfile.TemporaryDirectory(prefix=".fedtag-", dir=home, ignore_cleanup_errors=True) as staging:
        made = RunDirectory(staging)
        yield made
        RunDirectory(out)
        for path in sorted(
            made.path.iterdir(), key=lambda path: (path.name in CONTRACT, path.name == CONFIG)
        ):
            path.rename(out / path.name)
