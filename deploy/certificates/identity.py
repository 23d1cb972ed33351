"""The keys of an institution, as its peers are to know them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedtag.client.site.site import Site
from fedtag.common.errors import ConfigError
from fedtag.common.secure.identity import IDENTITY_FILE, Identity
from fedtag.common.secure.roster import roster_entry
from fedtag.deploy.federation.site import site_at


@dataclass(frozen=True)
class Identified:
    """The public keys of a site.

    Args:
        entry: for the rosters of all institutions, its own included; TOML.
        advice: what is to be done with it, one sentence each.
    """

    entry: str
    advice: tuple[str, ...]


def identify(folder: Path, workspace: Path | None, name: str | None) -> Identified:
    """The keys of a site, which are made where it has none.

    Args:
        folder: of its nodes and edges.
        workspace: of its own files; the folder where it is None.
        name: of the site; the folder's where it is None.

    Raises:
        ConfigError: there is no such folder, no site may be called so, or the keys cannot be used.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; name the one that the SuperNode gets as data")
    site = site_at(folder, workspace, name=name)
    known = (site.keys / IDENTITY_FILE).exists()
    entry = roster_entry(site.name, Identity.at(site.keys).public)
    return Identified(entry, advice(site, known))


def advice(site: Site, known: bool) -> tuple[str, ...]:
    """How the entry of a site gets into the rosters, and the rosters to the SuperNodes.

    Args:
        site: that has keys.
        known: whether it had them before.
    """
    file = (site.keys / IDENTITY_FILE).absolute()
    node = {"data": site.folder.absolute(), "workspace": site.workspace.absolute(), "name": site.name}
    if site.workspace == site.folder:
        del node["workspace"]
    told = " ".join(f"{key}='{value}'" for key, value in node.items())
    return (
        f"{'the' if known else 'new'} keys of {site.name} are in {file}: keep this file, and show it to nobody",
        "give the entry to the other institutions by another way than the server, and let them read it back to you",
        "collect the entries of all institutions, this one included, in a file roster.toml on each of their machines",
        f"start the SuperNode with --node-config \"{told} roster='/path/to/roster.toml'\"",
        "runs then need privacy.secure-aggregation = true and privacy.roster = true",
    )
