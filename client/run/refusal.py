"""What the server is told of an error at a site."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fedtag.common.errors import ProtocolError, VersionError

CLIENT_EXCEPTION = 2


def reason(error: Exception) -> str:
    """The kind of the error, and its text only where that cannot quote the institution's data.

    What the operating system says of its own calls ("No space left on device") comes from a fixed list.
    """
    if isinstance(error, ProtocolError | VersionError):
        return f"{type(error).__name__}: {error}"
    system = error if isinstance(error, OSError) else error.__cause__
    known = f": {os.strerror(system.errno)}" if isinstance(system, OSError) and system.errno else ""
    return f"{type(error).__name__}{known}; the site's own log says more"


def signed(told: str, node: Mapping[str, object]) -> str:
    """The same under the name of the site, which the server may not know yet; as it is in a simulation."""
    name = node.get("name") or ("data" in node and Path(str(node["data"])).name)
    return f"{name}: {told}" if name else told
