"""One side of a federation, as its executor sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flwr.supercore.constant import TaskType

from fedtag.deploy.executor.runtime import Runtime


@dataclass(frozen=True)
class Side:
    """What is done with tasks; the module that holds one imports what they need, before the first comes.

    Args:
        kind: of the tasks that it takes.
        carry_out: a task, given where it comes from and its token.
        graceful: whether a task is finished when the executor is to end.
    """

    kind: TaskType
    carry_out: Callable[[Runtime, str], None]
    graceful: bool
