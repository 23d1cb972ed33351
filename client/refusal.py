"""What the server is told of an error at a site."""

from __future__ import annotations

from common.errors import ProtocolError

CLIENT_EXCEPTION = 2


def reason(error: Exception) -> str:
    """The kind of the error, and its text only where that cannot quote the institution's data."""
    told = f": {error}" if isinstance(error, ProtocolError) else "; the site's own log says more"
    return f"{type(error).__name__}{told}"
