"""What an institution's --node-config says of the worker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fedtag.common.errors import ConfigError

DEFAULT_IDLE = 600.0


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a site.

    Args:
        on: whether messages are handed to a worker, or each is carried out in the process that Flower starts.
        idle: seconds without a message after which the worker ends, > 0.
    """

    on: bool = True
    idle: float = DEFAULT_IDLE


def worker_settings(node: Mapping[str, object]) -> WorkerSettings:
    """The settings `worker` and `worker-idle` of a --node-config.

    Raises:
        ConfigError: naming the wrong value.
    """
    choice = node.get("worker", "on")
    if choice not in ("on", "off", True, False):
        raise ConfigError(f"worker {choice!r} in --node-config is neither 'on' nor 'off'")
    try:
        idle = float(str(node.get("worker-idle", DEFAULT_IDLE)))
    except ValueError:
        idle = math.nan
    if not 0 < idle < math.inf:
        raise ConfigError(
            f"worker-idle {node['worker-idle']!r} in --node-config is not a number of seconds above 0; "
            "worker='off' does without a worker"
        )
    return WorkerSettings(choice in ("on", True), idle)
