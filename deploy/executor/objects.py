"""Parts of messages, taken as soon as they are there.

A message is told of before its parts have come, and who finds one missing asks Flower again after 1 s, then after 2 s,
4 s and so on, which no option changes. Here the asking itself waits, with short pauses first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
        pace, start = Pace(*PAUSES), time.monotonic()
        while True:
            answer: PullObjectResponse = self._client.PullObject(request)
            coming = answer.object_found and not answer.object_available
            if not coming or time.monotonic() - start > PATIENCE_SECONDS:
                return answer
            time.sleep(pace.pause)


def promptly(pull: Callable[[int, str], bytes]) -> Callable[[int, str], bytes]:
    """The same way to get an object of a run, which waits for one that is on its way."""

    def pulled(run_id: int, object_id: str) -> bytes:
        pace, start = Pace(*PAUSES), time.monotonic()
        while True:
            try:
                return pull(run_id, object_id)
            except ObjectUnavailableError:
                if time.monotonic() - start > PATIENCE_SECONDS:
                    raise
            time.sleep(pace.pause)

    return pulled
