"""Parts of messages, taken as soon as they are there.

A message is told of before its parts have come, and who finds one missing asks Flower again after 1 s, then after 2 s,
4 s and so on, which no option changes. Here the asking itself waits, with short pauses first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError

from fedtag.deploy.executor.beat import Pace

PAUSES = (0.01, 0.5)
PATIENCE_SECONDS = 20.0
"""After that Flower's own pauses follow."""


class PromptClient:
    """A client of the Runtime API that waits for objects which are on their way.

    Args:
        client: Flower's.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def PullObject(self, request: PullObjectRequest) -> PullObjectResponse:  # noqa: N802
        """An object, as soon as it is available; as Flower answers, once the patience is over."""
        for pause in pauses():
            answer: PullObjectResponse = self._client.PullObject(request)
            if answer.object_available or not answer.object_found or pause is None:
                break
            time.sleep(pause)
        return answer


def promptly(pull: Callable[[int, str], bytes]) -> Callable[[int, str], bytes]:
    """The same way to get an object of a run, which waits for one that is on its way."""

    def pulled(run_id: int, object_id: str) -> bytes:
        for pause in pauses():
            try:
                return pull(run_id, object_id)
            except ObjectUnavailableError:
                if pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last pause is none")

    return pulled


def pauses() -> Iterator[float | None]:
    """Seconds to wait for an object that is on its way, and None once the patience is over."""
    pace, start = Pace(*PAUSES), time.monotonic()
    while time.monotonic() - start < PATIENCE_SECONDS:
        yield pace.pause
    yield None
