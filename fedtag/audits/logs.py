"""What is known of an audit log otherwise: the key of its owner, and seals that were kept elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedtag.audits.card import site_keys
from fedtag.common.audit_log.lines import Line, parsed, split
from fedtag.common.audit_log.verification import verify
from fedtag.common.errors import ConfigError
from fedtag.common.secure.agreement import KEY_BYTES
from fedtag.common.secure.canonical import from_hex


def known_keys(path: Path, roster: Path | None, key: str | None) -> Mapping[str, str] | None:
    """Signing keys in hexadecimal, by owner; None where neither a roster nor a key is given.

    Args:
        path: of the log, whose owner a single key is of.
        roster: file with the keys of all sites.
        key: of the owner.

    Raises:
        ConfigError: both are given, or the key is none.
        RunError: there is no log.
    """
    if roster is not None and key is not None:
        raise ConfigError("roster= and key= are two ways to say whose key seals: give one of them")
    if key is not None:
        from_hex(key, KEY_BYTES, "key=")
        return {verify(path).owner: key}
    return site_keys(roster)


def kept_seals(path: Path | None) -> tuple[Line, ...]:
    """The seals in a file that was kept; none without one.

    Raises:
        ConfigError: it cannot be read, or is no such file.
    """
    if path is None:
        return ()
    try:
        lines = [parsed(raw) for raw in split(path.read_bytes())]
    except OSError as error:
        raise ConfigError(
            f"the seals {path} cannot be read ({error.strerror}): name a copy of seals.jsonl"
        ) from error
    found = tuple(line for line in lines if line is not None)
    if len(found) != len(lines) or not lines:
        raise ConfigError(f"{path} is no copy of seals.jsonl: name one")
    return found
