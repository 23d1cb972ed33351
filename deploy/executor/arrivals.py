"""Waiting for something that comes: who asks for it is answered when it is there, and need not ask again and again."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Arrivals:
    """What threads wait for, and who tells them.

    Args:
        most: so many wait at the same time; others are told at once that nothing has come.
    """

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)
        self._awaited: defaultdict[Hashable, list[threading.Event]] = defaultdict(list)
        self._lock = threading.Lock()

    @contextmanager
    def expecting(self, what: Hashable) -> Iterator[threading.Event | None]:
        """What is set when it comes, from now on, so that nothing is missed between a look and the wait.

        None where too many wait.
        """
        if not self._free.acquire(blocking=False):
            yield None
            return
        event = threading.Event()
        with self._lock:
            self._awaited[what].append(event)
        try:
            yield event
        finally:
            with self._lock:
                self._awaited[what].remove(event)
                if not self._awaited[what]:
                    del self._awaited[what]
            self._free.release()

    def is_latest(self, what: Hashable, event: threading.Event) -> bool:
        """Whether nobody has begun to wait for the same after this one."""
        with self._lock:
            return self._awaited[what][-1] is event

    def tell(self, what: Hashable) -> None:
        """It has come."""
        with self._lock:
            for event in self._awaited.get(what, ()):
                event.set()
