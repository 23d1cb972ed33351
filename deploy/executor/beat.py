"""Signs of life: what a program tells its supervisor through a pipe, a line of JSON each."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict, dataclass

EVERY_SECONDS = 1.0
"""The least time between two signs that say the same."""


@dataclass(frozen=True)
class Sign:
    """What a program does.

    Args:
        state: `starting`, `idle`, `working`, or `waiting` for something that is not there.
        detail: at what, or for what and why; empty where there is nothing to say.
    """

    state: str
    detail: str = ""


class Beat:
    """A program's end of the pipe.

    Args:
        descriptor: to write to; None where nobody listens.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._last: tuple[Sign, float] | None = None

    def tell(self, sign: Sign) -> None:
        """Say it, unless the same was said a moment ago; a supervisor that is gone or slow is no obstacle."""
        now = time.monotonic()
        if self._descriptor is None or (
            self._last and self._last[0] == sign and now - self._last[1] < EVERY_SECONDS
        ):
            return
        self._last = sign, now
        try:
            os.write(self._descriptor, (json.dumps(asdict(sign)) + "\n").encode())
        except BlockingIOError:
            return
        except OSError:
            self._descriptor = None


class Pulse:
    """Tells for a loop that may wait for others without a bound, so that its silence is no sign of death.

    Args:
        beat: to tell with; the loop tells with `tell` of this.
        waits_for: who is waited for when the loop is silent.
        always: what is told of a loop that cannot tell anything; None where it can.
    """

    PATIENCE_SECONDS = 6.0

    def __init__(self, beat: Beat, waits_for: str, always: Sign | None = None) -> None:
        self._beat = beat
        self._waits_for = waits_for
        self._always = always
        self._heard = time.monotonic()
        threading.Thread(target=self._repeat, name="pulse", daemon=True).start()

    def tell(self, sign: Sign) -> None:
        """As `Beat.tell`."""
        self._heard = time.monotonic()
        self._beat.tell(sign)

    def _repeat(self) -> None:
        while True:
            time.sleep(EVERY_SECONDS)
            silent = time.monotonic() - self._heard
            if self._always is not None:
                self._beat.tell(self._always)
            elif silent > self.PATIENCE_SECONDS:
                self._beat.tell(Sign("waiting", f"{self._waits_for} has not answered for {silent:.0f} s"))


class Pace:
    """Pauses between two looks for work: a tenth of the time for which there was none, within bounds.

    Args:
        shortest: seconds, > 0.
        longest: seconds, >= shortest.
    """

    def __init__(self, shortest: float, longest: float) -> None:
        self.shortest = shortest
        self.longest = longest
        self.worked()

    def worked(self) -> None:
        """There was work just now."""
        self._since = time.monotonic()

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return min(self.longest, max(self.shortest, (time.monotonic() - self._since) / 10))
