"""The site that options of a command describe, as --node-config does."""

from __future__ import annotations

from pathlib import Path

from fedtag.client.site.site import Site, site_from_node_config


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
