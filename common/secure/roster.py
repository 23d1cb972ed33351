"""The public keys of its peers that an institution got from them, not from the server."""

from __future__ import annotations

import tomllib
from pathlib import Path

import tomli_w

from common.errors import ConfigError, ProtocolError
from common.secure.identity import PublicIdentity
from common.wire.names import CLIENT_NAME


def read_roster(path: Path) -> dict[str, PublicIdentity]:
    """The keys of each institution, by the name under which it takes part.

    The file is TOML with a table a name, each of which holds `seal` and `sign` in hexadecimal.

    Raises:
        ConfigError: the file cannot be read, or an entry is wrong; it says which and what to do.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"the roster {path} cannot be read ({error}): name an existing file") from error
    except ValueError as error:  # neither UTF-8 nor TOML
        raise ConfigError(f"the roster {path} is no TOML ({error}): it needs a table a peer") from error
    if not tables:
        raise ConfigError(
            f"the roster {path} is empty: paste an entry of each institution, this one included"
        )
    roster: dict[str, PublicIdentity] = {}
    for name, entry in tables.items():
        if not CLIENT_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} in the roster {path} is no name of an institution: correct it")
        try:
            public = PublicIdentity.from_json(entry, name)
        except ProtocolError as error:
            raise ConfigError(f"the roster {path}: {error}; paste the entry of {name} again") from error
        for other, known in roster.items():
            if known.seal == public.seal or known.sign == public.sign:
                raise ConfigError(
                    f"{other} and {name} have the same key in the roster {path}: one entry is wrong"
                )
        roster[name] = public
    return roster


def roster_entry(name: str, public: PublicIdentity) -> str:
    """The TOML that peers paste into their rosters."""
    return tomli_w.dumps({name: public.as_json()})
