"""Who works with a site's rows and what is made of them: messages do together, whoever forgets nodes does alone."""

from __future__ import annotations

from io import FileIO

from fedtag.client.site.site import Site
from fedtag.common.secure.lock import locked

LOCK = ".in-use"
WAIT_SECONDS = 600.0


def in_use(site: Site, *, alone: bool = False) -> FileIO:
    """Take the lock of a site's workspace; it is given back when what comes back is closed, or its process ends.

    Args:
        site: that is used.
        alone: wait until nobody else uses it, and let nobody else begin.

    Raises:
        RunError: others have it for longer than `WAIT_SECONDS`.
    """
    site.workspace.mkdir(parents=True, exist_ok=True)
    return locked(site.workspace / LOCK, WAIT_SECONDS, shared=not alone)
