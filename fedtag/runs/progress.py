"""What long work reports to: bars on a terminal or in a notebook, or the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from fedtag.common.logs import LOGGER
from fedtag.server.pages.wording import duration
from fedtag.server.state.progress import LineProgress
from fedtag.server.state.progress import Progress as RoundProgress

Work = Callable[[str, int, int], None]
SECONDS_BETWEEN_LINES = 5.0


class Pace:
    """How fast long work goes, since it was first heard of."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[float, int]] = {}

    def said(self, what: str, done: int, total: int) -> str:
        """How much is done in a second, and the time left; empty where nothing is known yet."""
        now = time.monotonic()
        since, before = self._begun.setdefault(what, (now, done))
        if done >= total:
            del self._begun[what]
        if done <= before or now <= since:
            return ""
        speed = (done - before) / (now - since)
        left = f", {duration((total - done) / speed)} left" if done < total else ""
        return f"{speed:.3g} a second{left}"


class Progress(Protocol):
    """Where a run and its sites report to."""

    @property
    def rounds(self) -> RoundProgress:
        """For the round loop."""
        ...

    def work(self, site: str) -> Work:
        """For the long work of a site: called with what it does, how much is done, and of how much."""
        ...

    def stage(self, text: str) -> None:
        """What the run does at this moment, where that takes long; may be reported again and again."""
        ...


class LogProgress:
    """Lines in the log, not more than a person would read."""

    def __init__(self) -> None:
        self.rounds: RoundProgress = LineProgress(SECONDS_BETWEEN_LINES)
        self._stage = ""
        self._stage_reported = -SECONDS_BETWEEN_LINES

    def work(self, site: str) -> Work:
        last, pace = -SECONDS_BETWEEN_LINES, Pace()

        def report(what: str, done: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            speed = pace.said(what, done, total)
            if now - last >= SECONDS_BETWEEN_LINES or done == total:
                last = now
                LOGGER.info("%s: %s, %d of %d%s", site, what, done, total, speed and f", {speed}")

        return report

    def stage(self, text: str) -> None:
        now = time.monotonic()
        if text != self._stage and now - self._stage_reported >= SECONDS_BETWEEN_LINES:
            self._stage, self._stage_reported = text, now
            LOGGER.info("%s", text)


LOGGED: Progress = LogProgress()
"""For callers who show nothing."""
