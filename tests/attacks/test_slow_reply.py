"""Replies that are slow to read, which come first, must not cost those their deadline that come in time.

Limits bound what reading may cost, a second or so each; here it takes as long as it takes others to come. The control
reads where the server waits for all others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedtag.common.config import RunConfig
from fedtag.common.wire.codec import encode
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.server.exchange import exchange as exchange_module
from fedtag.server.exchange.exchange import Exchange
from fedtag.server.state.monitor import Monitor
from fedtag.server.state.progress import LineProgress
from fedtag.server.state.round import Exchanged
from fedtag.server.tracking.meters import Meters

HOSTILE, HONEST = (2, 3), (4, 5)
DEADLINE, KEPT, SLOW = 2.0, 3.0, 6.0
"""Seconds of the exchange; for which a reply can be fetched, a minute more in Flower; that reading takes at most."""


class SlowMessage(Message):
    """A message whose content can be read when all others have come, or after a long while."""

    others: threading.Event

    @property
    def content(self) -> RecordDict:
        self.others.wait(SLOW)
        self.others.set()
        return super().content


class LateGrid(Grid):
    """Hostile nodes answer at once, honest ones a moment before the deadline; no reply is kept for long."""

    def __init__(self) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
        self.replies: dict[str, tuple[float, Message]] = {}
        self.came = threading.Event()

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(self, *arguments: Any, **more: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return [*HOSTILE, *HONEST]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        now, keys = time.monotonic(), []
        for message in messages:
            node, key = message.metadata.dst_node_id, str(message.metadata.dst_node_id)
            message.metadata.__dict__["_message_id"] = key
            content = Content({}, {"sizes": {"nodes": 1}})
            answer = Message(encode(Reply("run", 1, 1, "train", f"site-{node}", content)), reply_to=message)
            due = now if node in HOSTILE else now + 0.8 * DEADLINE
            if node in HOSTILE:
                answer.__class__ = SlowMessage
                answer.__dict__["others"] = self.came
            self.replies[key] = due, answer
            keys.append(key)
        return keys

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        now = time.monotonic()
        ready = [key for key in message_ids if self.replies[key][0] <= now < self.replies[key][0] + KEPT]
        pulled = [self.replies.pop(key)[1] for key in ready]
        if not {str(node) for node in HONEST} & self.replies.keys():
            self.came.set()
        return pulled

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Sequence[Message]:
        raise NotImplementedError


class AtOnce:
    """What the control has in place of threads: each reply is read where it is received."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        pass

    def __enter__(self) -> AtOnce:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(call(*arguments))
        return done


@pytest.fixture
def exchanged(tmp_path: Any) -> Callable[[], Exchanged]:
    config = RunConfig.from_flat({"exchange.poll": 0.02, "device": "cpu"})
    monitor = Monitor(tmp_path, config, LineProgress(), Meters())
    nodes = [*HOSTILE, *HONEST]
    monitor.seen(nodes)

    def run() -> Exchanged:
        instructions = {node: Instruction("run", 1, 1, "train", Content()) for node in nodes}
        return Exchange(LateGrid(), config.exchange).run(instructions, DEADLINE, monitor)

    return run


def test_what_came_in_time_counts_however_long_others_take_to_read(
    exchanged: Callable[[], Exchanged],
) -> None:
    found = exchanged()
    assert list(found.replies) == [*HOSTILE, *HONEST]
    assert not found.failures


def test_read_where_it_is_received_it_would_not(
    exchanged: Callable[[], Exchanged], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr(exchange_module, "ThreadPoolExecutor", AtOnce)
    found = exchanged()
    assert set(found.failures) == set(HONEST)
