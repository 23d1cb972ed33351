"""How long the server waits for a node: a deadline that counts from the start of the work, and a bound on both."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Awaited:
    """A node whose answer is awaited.

    Times are `time.monotonic()` of the server; what a site says of its own can shorten its time, and lengthens it by
    no more than one deadline.

    Args:
        pushed: when the instruction went out.
        deadline: seconds from the start of the work, > 0.
        key: of the message whose reply can be pulled; empty while that is read, or before the next one goes out.
        next_at: when the next message to the node is due; None if none is.
        began: the start of its work; None before it has told that it works.
        told: whether that is the work that goes on, and none that was lost.
        again: whether the next message is the instruction, since the work on it was lost.
        times: how often the instruction went out.
    """

    pushed: float
    deadline: float
    key: str
    next_at: float | None = None
    began: float | None = None
    told: bool = False
    again: bool = False
    times: int = 1

    @property
    def due(self) -> float:
        """When the server goes on without the node: a deadline after the push, or after the start of the work.

        Work begins at most one deadline after the push, whatever is said, so that no node holds an exchange for longer
        than two.
        """
        start = self.pushed if self.began is None else self.began
        return min(start, self.pushed + self.deadline) + self.deadline

    def at_work(self, now: float, seconds: float) -> None:
        """A sign came that work goes on; the first one counts.

        Args:
            now: when it came.
            seconds: for which the site has worked by then, as it says, >= 0.
        """
        if not self.told:
            self.began, self.told = max(now - seconds, self.began or self.pushed), True

    def lost(self) -> None:
        """The work is lost, and begins anew with the instruction."""
        self.again, self.told = True, False

    @property
    def too_late(self) -> str:
        """Why the server goes on without the node."""
        if self.began is None:
            return f"no reply within {self.deadline:g} s"
        return f"no reply within {self.deadline:g} s of the start of its work"
