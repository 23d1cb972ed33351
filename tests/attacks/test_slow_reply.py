"""Replies that are slow to read, which come first, must not cost those their deadline that come in time.

The replies are as costly as the limits allow: none is refused before it is read. The control reads them where the
server waits for all others.
"""

from __future__ import annotations

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
from fedtag.common.wire.limits import MAX_TABLES
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.server.exchange import exchange as exchange_module
from fedtag.server.exchange.exchange import Exchange
from fedtag.server.state.monitor import Monitor
from fedtag.server.state.progress import LineProgress
from fedtag.server.state.round import Exchanged
from fedtag.server.tracking.meters import Meters

HOSTILE, HONEST = (2, 3, 4, 5, 6, 7), (8, 9)
DEADLINE, KEPT = 1.0, 1.0
"""Seconds of the exchange, and how long a reply can be fetched; Flower keeps one for a minute longer."""
COSTLY = Content({}, {"x": [[]] * (MAX_TABLES // 3)})
"""Tenths of a second of a processor, more under the type checker of the tests."""


class LateGrid(Grid):
    """Hostile nodes answer at once, honest ones a moment before the deadline; no reply is kept for long."""

    def __init__(self) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
        self.replies: dict[str, tuple[float, Message]] = {}

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
        hostile, honest = reply("hostile", COSTLY), reply("honest", Content({}, {"sizes": {"nodes": 1}}))
        now, keys = time.monotonic(), []
        for message in messages:
            node, key = message.metadata.dst_node_id, str(message.metadata.dst_node_id)
            message.metadata.__dict__["_message_id"] = key
            answer = Message(hostile if node in HOSTILE else honest, reply_to=message)
            due = now if node in HOSTILE else now + 0.9 * DEADLINE
            self.replies[key] = due, answer
            keys.append(key)
        return keys

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        now = time.monotonic()
        ready = [key for key in message_ids if self.replies[key][0] <= now < self.replies[key][0] + KEPT]
        return [self.replies.pop(key)[1] for key in ready]

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


def reply(client: str, content: Content) -> RecordDict:
    return encode(Reply("run", 1, 1, "train", client, content))


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
    assert set(found.failures) == set(HONEST), "the hostile replies are read so fast that they attack nothing"
