"""Sites whose operators have not approved the run yet: they are online, and count as if they were not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

from fedtag.common.errors import ApprovalError
from fedtag.common.settings.sections import ExchangeConfig
from fedtag.server.state.troubles import error_in

LONGEST_PAUSE = 10.0


class Absence:
    """Who waits for an approval in one exchange.

    At the start of a run they are waited for as clients are that are not online yet. Later they are strangers: asked in
    every exchange, like anybody who comes late, and missed by nobody.

    Args:
        config: start-timeout and quorum.
        asked: how many clients are asked.
        begun: whether the run goes on without them.

    Attributes:
        pending: the nodes of those who wait.
    """

    def __init__(self, config: ExchangeConfig, asked: int, begun: bool) -> None:
        self.config = config
        self.asked = asked
        self.begun = begun
        self.start = time.monotonic()
        self.pending: set[int] = set()
        self._noted: set[int] = set()

    def noted(self, asked: Iterable[int], failures: Mapping[int, str]) -> set[int]:
        """Take in what came; those nodes that wait, and had said so before.

        Args:
            asked: the nodes that were asked last.
            failures: why some of them failed.
        """
        waiting = {node for node, reason in failures.items() if error_in(reason)[1] == ApprovalError.__name__}
        self.pending = self.pending.difference(asked) | waiting
        known, self._noted = waiting & self._noted, self._noted | waiting
        return known

    def quorum(self, fewest: int) -> int:
        """How many usable replies are enough.

        Args:
            fewest: without which nothing can be made of them, >= 1.
        """
        there = self.asked - (len(self.pending) if self.begun else 0)
        return max(1, math.ceil(self.config.quorum * there), fewest)

    def wait(self, beat: Callable[[], None]) -> bool:
        """Leave operators some time, if there is any left; whether that was done.

        Args:
            beat: called before the pause.
        """
        pause = min(LONGEST_PAUSE, 100 * self.config.poll)
        if (
            self.begun
            or not self.pending
            or time.monotonic() - self.start + pause > self.config.start_timeout
        ):
            return False
        beat()
        time.sleep(pause)
        return True
