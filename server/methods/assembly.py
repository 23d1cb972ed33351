"""The server's side of a run's method, with the run's parts around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from fedtag.common.config import RunConfig
from fedtag.common.methods.spec import METHODS
from fedtag.common.parts.spec import PARTS
from fedtag.server.protocol.method import ServerMethod

Around = Callable[[ServerMethod, RunConfig], ServerMethod]


def method_of(config: RunConfig) -> ServerMethod:
    """The method of a run, in its parts; the first of them is the innermost.

    Raises:
        ConfigError: one of them is not installed, or cannot be used.
    """
    method = cast(ServerMethod, METHODS.resolved(config.spec, config.spec.server))
    for part in config.part_specs:
        if part.server:
            around = cast(Around, PARTS.resolved(part, part.server))
            method = around(method, config)
    return method
