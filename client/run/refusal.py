"""What the server is told of an error at a site."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from fedtag.common.errors import BundleError, CapacityError, PolicyError, ProtocolError, VersionError
from fedtag.common.wire.limits import MAX_REASON
from fedtag.common.wording.visible import visible

CLIENT_EXCEPTION = 2
PATH = re.compile(r"(?<![\w/.:])~?/[^\s:;,'\"()]+")
"""An absolute path; no part of an address, nor of a name like update/w."""
HIDDEN = "a path at this site"
ELSEWHERE = "; the site's own log says more"
"""Where the text of an error is that might quote data."""


def reason(error: Exception) -> str:
    """The kind of the error, and its text only where that cannot quote the institution's data.

    What the operating system says of its own calls ("No space left on device") comes from a fixed list.
    """
    if isinstance(error, BundleError | CapacityError | PolicyError | ProtocolError | VersionError):
        return f"{type(error).__name__}: {visible(PATH.sub(HIDDEN, str(error)))}"[:MAX_REASON]
    system = error if isinstance(error, OSError) else error.__cause__
    known = f": {os.strerror(system.errno)}" if isinstance(system, OSError) and system.errno else ""
    return f"{type(error).__name__}{known}{ELSEWHERE}"


def signed(text: str, node: Mapping[str, object]) -> str:
    """The same under the name of the site, which the server may not know yet; as it is where none is known."""
    # Longest first: a folder may lie in another one; one with blanks in its name is no PATH.
    places = sorted(
        (one for one in node.values() if isinstance(one, str) and Path(one).is_absolute()), key=len
    )
    for place in reversed(places):
        text = text.replace(place, HIDDEN)
    name = node.get("name") or ("data" in node and Path(str(node["data"])).name)
    return f"{name}: {text}" if name else text
