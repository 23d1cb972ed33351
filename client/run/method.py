"""The client's side of a run's method, with the run's parts around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from fedtag.client.methods.side import ClientSide
from fedtag.common.config import RunConfig
from fedtag.common.methods.spec import METHODS
from fedtag.common.parts.spec import PARTS
from fedtag.common.settings.run_settings import RunSettings

Around = Callable[[ClientSide, RunSettings], ClientSide]


def method_of(config: RunConfig) -> ClientSide:
    """The method of a run, in its parts; the first of them is the innermost.

    Raises:
        ConfigError: one of them is not installed, or cannot be used.
    """
    method = cast(ClientSide, METHODS.resolved(config.spec, config.spec.client))
    for part in config.part_specs:
        around = cast(Around, PARTS.resolved(part, part.client))
        method = around(method, config)
    return method
