"""What a bundle may hold that a server sends: settings, and the names of what is installed here."""

from __future__ import annotations

import io
import tomllib
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

from fedtag.common.errors import BundleError
from fedtag.common.wording.visible import visible

COMPONENTS: Mapping[str, str] = {"serverapp": "fedtag.server.app:app", "clientapp": "fedtag.client.app:app"}
"""What the two sides of a run are; a site runs the second one whatever a bundle says."""
PROJECT = "pyproject.toml"
MANIFEST = ".info/CONTENT"
"""Flower's own list of what a bundle holds."""
MAX_BYTES = 2**20
MOST_NAMED = 3


def check_bundle(content: bytes) -> None:
    """Refuse a bundle with more than settings in it; nothing of it is unpacked or imported.

    Args:
        content: the bundle, a zip archive.

    Raises:
        BundleError: it holds other files than a pyproject.toml, or names other components than fedtag's.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            foreign = [member.filename for member in members if member.filename not in (PROJECT, MANIFEST)]
            if foreign:
                raise _refused(f"holds {_named(foreign)}")
            if len(members) != len({member.filename for member in members}):
                raise _refused("holds a file twice")
            # What a member says of its size is its author's word; no more than that is read.
            with archive.open(PROJECT) as member:
                content = member.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES or sum(member.file_size for member in members) > MAX_BYTES:
                raise _refused(f"unpacks to more than {MAX_BYTES} bytes")
            project = tomllib.loads(content.decode())
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        KeyError,
        ValueError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise _refused(f"is no archive with a {PROJECT} ({type(error).__name__})") from error
    named = _components(project)
    if named != COMPONENTS:
        raise _refused(f"names the components {_named([f'{side} = {name}' for side, name in named.items()])}")


def _components(project: Mapping[str, Any]) -> dict[str, str]:
    table: Any = project
    for key in ("tool", "flwr", "app", "components"):
        table = table.get(key) if isinstance(table, dict) else None
    return {str(side): str(name) for side, name in table.items()} if isinstance(table, dict) else {}


def _named(found: list[str]) -> str:
    shown = ", ".join(visible(one)[:80] for one in found[:MOST_NAMED])
    return f"{shown or 'none'}{f' and {len(found) - MOST_NAMED} more' if len(found) > MOST_NAMED else ''}"


def _refused(what: str) -> BundleError:
    return BundleError(
        f"the run's bundle {what}; this site runs what is installed here, so a bundle has a {PROJECT} with settings "
        "alone: let the coordinator write it with fedtag bundle"
    )
