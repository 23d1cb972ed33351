"""Where an institution keeps what belongs to a run."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fedtag.client.text.weights import BUNDLED
from fedtag.common.errors import ConfigError
from fedtag.common.wire.names import CLIENT_NAME
from fedtag.common.wording.suggestion import did_you_mean

KEYS = frozenset(
    {"data", "name", "workspace", "cache", "device", "roster", "models", "policy"}
    | {"worker", "worker-idle", "worker-patience"}
)
"""What a node configuration may say; a misspelt policy would be no policy."""


@dataclass(frozen=True)
class Site:
    """One institution's place on its own machine.

    Args:
        name: how the federation calls it: 1 to 64 letters, digits, spaces or any of . _ @ -
        folder: its nodes and edges.
        workspace: evidence/ and state/ are written here.
        cache: encoded texts and summaries; may be shared by sites on one machine.
        device: auto, cpu, cuda, cuda:0, ...
        roster: file with the keys of all sites, as their operators exchanged them; with one, the site's updates
            leave it under masks only, and it trusts no key or list of survivors that the server tells.
        models: folders in which encoders and language models lie by the names that settings give them.
        policy: file with what the institution allows; None allows whatever the settings of a run say.
        seed: of a simulated site, by which groups under masks are drawn again the same; None where they must be drawn
            as nobody can know.
    """

    name: str
    folder: Path
    workspace: Path
    cache: Path
    device: str = "auto"
    roster: Path | None = None
    policy: Path | None = None
    seed: int | None = None
    models: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def evidence(self) -> Path:
        """The folder of evidence packs: of the newest run that wrote any, and below it of those before."""
        return self.workspace / "evidence"

    @property
    def state(self) -> Path:
        """The folder of what outlives a message."""
        return self.workspace / "state"

    @property
    def state_in_folder(self) -> Path:
        """Where a simulated site, and one whose workspace is its folder, kept what it made in a run."""
        return replace(self, workspace=self.folder).state

    @property
    def keys(self) -> Path:
        """The folder of the site's own keys."""
        return self.workspace / "keys"

    def model(self, name: str) -> str:
        """Where a model lies at the site; its name, where that is built in or in none of the site's folders."""
        found = (folder / name for folder in self.models if name != BUNDLED)
        return next((str(folder) for folder in found if folder.is_dir()), name)

    @property
    def letters(self) -> Path:
        """The folder of what the site remembers of letters from its peers."""
        return self.workspace / "letters"

    @property
    def secrets(self) -> Path:
        """The folder of what the site holds for secure sums."""
        return self.workspace / "secure"


def name_of(folder: Path) -> str:
    """What a site is called after its folder; `site` where no site may be called so."""
    name = folder.resolve().name
    return name if CLIENT_NAME.fullmatch(name) else "site"


def site_name(name: str) -> str:
    """What a site is called after its institution: without characters that no folder of a site may have.

    >>> site_name("Klinikum (Süd)")
    'Klinikum Süd'
    """
    short = re.sub(r"[^\w .@-]|^[^\w]+", "", unicodedata.normalize("NFC", name))[:64].strip()
    return short if CLIENT_NAME.fullmatch(short) else f"site-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def check_name(name: str) -> None:
    """Raise ConfigError where a site may not be called so; a name is also the name of a folder."""
    if not CLIENT_NAME.fullmatch(name):
        raise ConfigError(
            f"site name {name!r}: use 1 to 64 letters, digits, spaces or . _ @ -, "
            "starting with a letter or a digit"
        )


def site_from_node_config(node: Mapping[str, object], device: str) -> Site:
    """The site that a SuperNode's --node-config describes: data, and optionally name, workspace, cache,
    device, roster, models, policy.

    Raises:
        ConfigError: without data, if data is not a folder, or with a key that means nothing.
    """
    unknown = sorted(set(node) - KEYS)
    if unknown:
        raise ConfigError(
            f"the node configuration has {', '.join(map(repr, unknown))}, which is no key of it; "
            f"{did_you_mean(unknown[0], sorted(KEYS))}"
        )
    if "data" not in node:
        raise ConfigError(
            "this SuperNode has no data: start it with --node-config \"data='/path/to/folder'\""
        )
    folder = Path(str(node["data"])).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"the data folder {folder} does not exist; correct data in --node-config")
    workspace = Path(str(node.get("workspace", folder))).expanduser()
    return Site(
        name=str(node.get("name", folder.resolve().name)),
        folder=folder,
        workspace=workspace,
        cache=Path(str(node.get("cache", workspace / "cache"))).expanduser(),
        device=str(node.get("device", device)),
        roster=Path(str(node["roster"])).expanduser() if "roster" in node else None,
        models=tuple(Path(one).expanduser() for one in str(node.get("models", "")).split(os.pathsep) if one),
        policy=Path(str(node["policy"])).expanduser() if "policy" in node else None,
    )
