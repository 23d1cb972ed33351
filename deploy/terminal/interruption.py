"""Being stopped from outside: Ctrl-C, SIGTERM and SIGHUP end a run in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
TERMINATED = 143
ENDING = (signal.SIGTERM, signal.SIGHUP)


class TerminatedError(BaseException):
    """SIGTERM or SIGHUP arrived.

    Like KeyboardInterrupt it is no Exception, so that no handler of errors holds it up.
    """


@contextmanager
def terminable() -> Iterator[None]:
    """Raise TerminatedError in the main thread on SIGTERM or SIGHUP (a closed terminal), to leave contexts in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # A second signal while contexts are being left must not cut them short.
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise TerminatedError

    earlier = {each: signal.signal(each, stop) for each in ENDING}
    try:
        yield
    finally:
        for each, handler in earlier.items():
            signal.signal(each, handler)
