"""Places on this machine: what is wrong with one is said as everything else is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedtag.common.errors import ConfigError, RunError, of_place


def named_folder(out: str | Path | None) -> Path | None:
    """The folder that `out` names, None where it names none.

    Raises:
        ConfigError: it is no path, or an empty one.
    """
    if out is None:
        return None
    if not isinstance(out, str | Path) or not str(out).strip():
        raise ConfigError(f"out={out!r} names no folder: give the path of one, or leave it out")
    return Path(out)


@contextmanager
def places_told(place: Path) -> Iterator[None]:
    """Let what the system says of a file or folder be an error of fedtag.

    Args:
        place: named where the system names none, as at a write without room.

    Raises:
        RunError: it cannot be read or written; with its path, why, and the remedy.
    """
    try:
        yield
    except OSError as error:
        raise RunError(of_place(error, place)) from error
