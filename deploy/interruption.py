"""Being stopped from outside: Ctrl-C and SIGTERM end a run in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
TERMINATED = 143


class TerminatedError(BaseException):
    """SIGTERM arrived. Like KeyboardInterrupt it is no Exception, so that no handler of errors holds it up."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise TerminatedError in the main thread when SIGTERM arrives, so that contexts are left in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # A second signal while contexts are being left must not cut them short.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise TerminatedError

    earlier = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)
