"""Where fedtag keeps on this machine what belongs to no run, and which variable names another place for it."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

HOMES = {
    "FEDTAG_CACHE": ".cache/fedtag",
    "FEDTAG_HOME": ".fedtag",
    "HF_HOME": ".cache/huggingface",
    "FLWR_HOME": ".flwr",
}
"""Variables, and where their folders are in the user's own where they are not set."""


def cache_folder() -> Path:
    """Where encoded texts and public sets are kept: FEDTAG_CACHE, or ~/.cache/fedtag."""
    return _folder("FEDTAG_CACHE")


def home_folder() -> Path:
    """Where a coordinator's runs and its log are kept: FEDTAG_HOME, or ~/.fedtag."""
    return _folder("FEDTAG_HOME")


def moved_by(path: Path) -> str | None:
    """The variable that names another place for a file or folder; None where none does."""
    with suppress(OSError):
        there = path.absolute()
        if found := next((name for name in HOMES if there.is_relative_to(_folder(name).absolute())), None):
            return found
        # What people keep among what is temporary stays theirs.
        own = f"{tempfile.gettempdir()}/fedtag-*"
        return "TMPDIR" if any(one.match(own) for one in (there, *there.parents)) else None
    return None


def _folder(variable: str) -> Path:
    if named := os.environ.get(variable):
        return Path(named)
    try:
        return Path.home() / HOMES[variable]
    except RuntimeError as error:
        raise OSError(errno.ENOENT, f"no home of the user is known: set HOME or {variable}") from error
