"""What two sides must have in common to understand each other, and the release that each of them has.

Every message and every app for `flwr run` says both. Sides of one protocol work together, whatever their releases; a
side refuses what comes from another protocol, before it reads any of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import TypeVar

from fedtag.common.errors import VersionError

PROTOCOL = 5
"""Goes up with each change of a message, or of what an exchange means, that another release would misunderstand."""
PROTOCOL_KEY, RELEASE_KEY = "fedtag.protocol", "fedtag.release"
"""Where an app's run configuration names them; they are no settings, and decide no result."""
UNKNOWN = "of an unknown release"
_RELEASE = re.compile(r"\d[\w.+!-]{0,39}")

T = TypeVar("T")


@cache
def installed_release() -> str:
    """The release of fedtag that this process runs."""
    try:
        return metadata.version("fedtag")
    except metadata.PackageNotFoundError:
        return UNKNOWN


def app_versions() -> dict[str, int | str]:
    """What an app for `flwr run` says beside its settings."""
    return {PROTOCOL_KEY: PROTOCOL, RELEASE_KEY: installed_release()}


def app_settings(run_config: Mapping[str, T]) -> tuple[dict[str, T], str]:
    """The settings in an app's run configuration, and the release that wrote it.

    Raises:
        VersionError: it was written for another protocol.
    """
    settings = {key: value for key, value in run_config.items() if key not in (PROTOCOL_KEY, RELEASE_KEY)}
    protocol, release = run_config.get(PROTOCOL_KEY), run_config.get(RELEASE_KEY)
    remedy = ", and write the app with its `fedtag bundle`"
    return settings, checked_release("the app", protocol, release, remedy)


def checked_release(what: str, protocol: object, release: object, remedy: str = "") -> str:
    """The release behind something of this protocol.

    Args:
        what: what came.
        protocol, release: what it says, of any type.
        remedy: what to do beside installing the same release.

    Raises:
        VersionError: it is of another protocol. The text names versions and nothing else, so that it may cross
            the network.
    """
    named = release if isinstance(release, str) and _RELEASE.fullmatch(release) else UNKNOWN
    if type(protocol) is int and protocol == PROTOCOL:
        return named
    shown = f"protocol {protocol}" if type(protocol) is int and 0 <= protocol < 10**6 else "no known protocol"
    raise VersionError(
        f"{what} is of {shown} (fedtag {named}), and here is protocol {PROTOCOL} (fedtag {installed_release()}): "
        f"install the same fedtag on all sides{remedy}"
    )
