"""What a site says when its disk is full."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedtag.client.site.site import Site
from fedtag.common.errors import RunError

# A disk, what a user may have of it, and what a process may write to one file.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def full_disk_explained(site: Site) -> Iterator[None]:
    """Turn the failure of a write for want of space into a sentence that says where and for whom.

    The system names no file when a write, and not the opening of a file, fails; then it is the folder of the
    site with the least space.

    Raises:
        RunError: in place of an OSError that says so; others pass.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        # In whole gigabytes: two looks at one disk differ by what others write meanwhile, and then it is the workspace.
        fullest = min((site.workspace, site.cache), key=lambda folder: free_bytes(folder) >> 30)
        place = Path(str(error.filename)) if error.filename else fullest
        raise RunError(
            f"site {site.name}: no space is left at {place} ({free_bytes(place) / 2**20:.1f} MiB are free): make "
            "room there; the site takes part again with the next message"
        ) from error


def free_bytes(path: Path) -> int:
    """What is free for this user on the disk where a path lies, or where it would be made."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free
