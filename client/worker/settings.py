"""What an institution's --node-config says of the worker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fedtag.common.errors import ConfigError

DEFAULT_IDLE = 600.0
DEFAULT_PATIENCE = 20.0


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a site.

    Args:
        on: whether messages are handed to a worker, or each is carried out in the process that Flower starts.
        idle: seconds without a message after which the worker ends, > 0.
        patience: seconds for which a message waits for its answer before the server is told that it is in work, > 0.
    """

    on: bool = True
    idle: float = DEFAULT_IDLE
    patience: float = DEFAULT_PATIENCE


def worker_settings(node: Mapping[str, object]) -> WorkerSettings:
    """The settings `worker`, `worker-idle` and `worker-patience` of a --node-config.

    Raises:
        ConfigError: naming the wrong value.
    """
    choice = node.get("worker", "on")
    if choice not in ("on", "off", True, False):
        raise ConfigError(f"worker {choice!r} in --node-config is neither 'on' nor 'off'")
    idle, patience = (
        _seconds(node, "worker-idle", DEFAULT_IDLE),
        _seconds(node, "worker-patience", DEFAULT_PATIENCE),
    )
    return WorkerSettings(choice in ("on", True), idle, patience)


def _seconds(node: Mapping[str, object], name: str, default: float) -> float:
    try:
        seconds = float(str(node.get(name, default)))
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigError(
            f"{name} {node[name]!r} in --node-config is not a number of seconds above 0; worker='off' does without a "
            "worker"
        )
    return seconds
