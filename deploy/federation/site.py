"""The site that options of a command describe, as --node-config does."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from fedtag.client.site.site import Site, site_from_node_config
from fedtag.common.errors import ConfigError


def site_at(
    data: Path, workspace: Path | None = None, cache: Path | None = None, name: str | None = None
) -> Site:
    """A site by its places; those that are None are where a SuperNode would look for them.

    Raises:
        ConfigError: there is no such folder, or no site may be called so.
    """
    given = {"data": data, "workspace": workspace, "cache": cache, "name": name}
    return site_from_node_config(
        {key: str(value) for key, value in given.items() if value is not None}, "auto"
    )


def own_site_at(
    data: Path, workspace: Path | None = None, cache: Path | None = None, name: str | None = None
) -> Site:
    """The same for a command that writes what the site's processes must be able to read and write afterwards.

    Raises:
        ConfigError: as of `site_at`, or the workspace is another user's.
    """
    site = site_at(data, workspace, cache, name)
    if site.workspace.exists() and (owner := site.workspace.stat().st_uid) != os.geteuid():
        raise ConfigError(
            f"the workspace {site.workspace} belongs to {_user(owner)}, and files that another user writes there are "
            f"of no use to the site: begin the command with sudo -u {_user(owner)}"
        )
    return site


def _user(number: int) -> str:
    """A user as sudo takes one."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"'#{number}'"
