"""A client's architecture as files, and who gets to see them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.drawing import drawing
from fedtag.common.settings.combinations import SEARCH

if TYPE_CHECKING:
    from fedtag.common.config import RunConfig


def is_told(config: RunConfig) -> bool:
    """Whether clients tell the server the architectures of their networks, if they have any.

    Not where each has its own and updates are masked: an architecture says which tensors the update behind the mask
    has, and what it was searched on are the client's validation nodes.
    """
    own = config.method == SEARCH and config.dadfgas.personal
    return not (own and config.privacy.secure_aggregation)


def documents(name: str, told: Mapping[str, Any]) -> dict[str, str]:
    """Texts by file name: JSON, and a drawing.

    Args:
        name: without suffix.
        told: `Architecture.as_json` and the number of parameters.
    """
    drawn = drawing(Architecture.from_json({"cells": told["cells"]}))
    return {f"{name}.json": json.dumps(told, indent=1) + "\n", f"{name}.svg": drawn + "\n"}
