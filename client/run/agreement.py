"""Whether a site has what the server's run is made of, before it works for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from fedtag.common.config import RunConfig
from fedtag.common.config.ingredients import differing, ingredients, lacking
from fedtag.common.errors import ConfigError, VersionError
from fedtag.common.secure.names import INGREDIENTS
from fedtag.common.wire.records import Instruction

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


def check_agreement(instruction: Instruction, config: RunConfig) -> None:
    """Refuse what the server has from elsewhere, or with other records.

    Raises:
        VersionError: naming both sides' packages and versions.
    """
    differences = differing(instruction.content.values.get(INGREDIENTS), ingredients(config))
    if differences:
        raise VersionError("; ".join(differences))
