"""A client's architecture as files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.drawing import drawing


def documents(name: str, told: Mapping[str, Any]) -> dict[str, str]:
    """Texts by file name: JSON, and a drawing.

    Args:
        name: without suffix.
        told: `Architecture.as_json` and the number of parameters.
    """
    drawn = drawing(Architecture.from_json({"cells": told["cells"]}))
    return {f"{name}.json": json.dumps(told, indent=1) + "\n", f"{name}.svg": drawn + "\n"}
