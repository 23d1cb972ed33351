"""The public keys of its peers that an institution got from them, not from the server."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import tomli_w

from fedtag.common.errors import ConfigError, ProtocolError
from fedtag.common.secure.identity import PublicIdentity
from fedtag.common.wire.names import CLIENT_NAME

HEADING = re.compile(r"""^[ \t]*\[[ \t]*(?:([A-Za-z0-9_-]+)|["'](.+?)["'])[ \t]*\]""", re.MULTILINE)


def read_roster(path: Path) -> dict[str, PublicIdentity]:
    """The keys of each institution, by the name under which it takes part.

    The file is TOML with a table a name, each of which holds `seal` and `sign` in hexadecimal.

    Raises:
        ConfigError: the file cannot be read, or an entry is wrong; it says which and what to do.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        twice = names_that_stand_twice(text)
        if twice:
            raise ConfigError(
                f"the roster {path} has more than one entry of {', '.join(twice)}: keep the one that the institution "
                "read back to you"
            )
        tables = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"the roster {path} cannot be read ({error}): name an existing file") from error
    except (ValueError, RecursionError) as error:  # neither UTF-8 nor TOML
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
        roster[name] = public
    if shared := names_with_one_key(roster):
        raise ConfigError(
            f"the roster {path} has one key for several institutions ({', '.join(shared)}): paste their entries again, "
            "each as that institution's own fedtag identity printed it"
        )
    return roster


def names_that_stand_twice(text: str) -> list[str]:
    """Names of tables that a roster declares more than once, sorted; TOML itself allows none."""
    counts = Counter(bare or quoted for bare, quoted in HEADING.findall(text))
    return sorted(name for name, count in counts.items() if count > 1)


def names_with_one_key(roster: Mapping[str, PublicIdentity]) -> list[str]:
    """All names that have a key in common with another, in the order of the file; two pairs are one list."""
    counts = Counter(key for one in roster.values() for key in {one.seal, one.sign})
    return [name for name, one in roster.items() if max(counts[one.seal], counts[one.sign]) > 1]


def roster_entry(name: str, public: PublicIdentity) -> str:
    """The TOML that peers paste into their rosters."""
    return tomli_w.dumps({name: public.as_json()})
