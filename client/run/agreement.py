"""Whether a site has what the server's run is made of, before it works for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from fedtag.client.site.site import Site
from fedtag.client.site.state import Remembered, StateStore
from fedtag.common.config import RunConfig
from fedtag.common.config.ingredients import differing, ingredients, lacking
from fedtag.common.errors import ConfigError, ProtocolError, VersionError
from fedtag.common.secure.names import INGREDIENTS, INTRODUCE
from fedtag.common.wire.records import Instruction

SETTINGS = "settings"
"""Under which a site keeps those of a run."""
LOGGER = logging.getLogger("fedtag")


@contextmanager
def lacking_explained(instruction: Instruction) -> Iterator[None]:
    """Turn settings that mean nothing here into what has to be installed, if that is the reason.

    Raises:
        VersionError: in place of a ConfigError, which stays at the site; others pass.
    """
    try:
        yield
    except ConfigError as error:
        absent = lacking(instruction.content.values.get(INGREDIENTS))
        if not absent:
            raise
        # Why it cannot be used may name places of this site, and stays here.
        LOGGER.error("%s", error)
        raise VersionError("; ".join(absent)) from error


def fix_settings(site: Site, instruction: Instruction, config: RunConfig) -> None:
    """Keep the settings with which a run introduces itself to a site, and refuse others afterwards.

    Raises:
        ProtocolError: naming what differs, as the server told it then and now.
    """
    store, own = StateStore(site.state, instruction.run), config.decisive()
    kept = store.find(SETTINGS)
    if kept is None:
        if instruction.content.values.get(INTRODUCE):
            store.keep(SETTINGS, Remembered({}, own))
        return
    before = kept.values
    changes = [
        f"{key} = {before.get(key, 'unset')}, now {own.get(key, 'unset')}"
        for key in sorted(before.keys() | own.keys())
        if before.get(key) != own.get(key)
    ]
    if changes:
        raise ProtocolError(
            f"this run came to {site.name} with other settings before ({'; '.join(changes[:5])}): a run keeps its "
            "settings, start a new one"
        )


def check_agreement(instruction: Instruction, config: RunConfig) -> None:
    """Refuse what the server has from elsewhere, or with other records.

    Raises:
        VersionError: naming both sides' packages and versions.
    """
    told = instruction.content.values.get(INGREDIENTS)
    # Most messages tell nothing of it, and what is installed takes milliseconds to name.
    if told is not None and (differences := differing(told, ingredients(config))):
        raise VersionError("; ".join(differences))
