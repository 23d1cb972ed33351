"""Sites that say that they work, over a grid in this process with real messages and a clock of the test's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedtag.common.config import RunConfig
from fedtag.common.wire.codec import decode_instruction, encode, pack
from fedtag.common.wire.envelope import opened, sealed
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.common.wire.signs import Collect, Sign, collect_of, serialised_sign
from fedtag.server.exchange import exchange as exchange_module
from fedtag.server.exchange.exchange import Exchange
from fedtag.server.state.monitor import Monitor
from fedtag.server.state.progress import LineProgress
from fedtag.server.state.round import Exchanged
from fedtag.server.tracking.meters import Meters

DEADLINE, PATIENCE = 60.0, 20.0
JOB = "ab" * 32
TOLD = Instruction("run", 1, 1, "train", Content({"model/w": torch.zeros(1000)}))

Asked = Instruction | Collect
Site = Callable[[Asked, float], tuple[float, Reply | Sign] | None]
"""What a site makes of a message that comes at a time: when it answers, and what; None if it never does."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        # A clock that stands still would hold a loop for ever.
        self.now += max(seconds, 0.001)


class ScriptedGrid(Grid):
    """Delivers messages to sites at once, and their answers when these say."""

    def __init__(self, clock: Clock, sites: dict[int, Site]) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
        self.clock, self.sites = clock, sites
        self.replies: dict[str, tuple[float, Message]] = {}
        self.asked: dict[int, list[Asked]] = {node: [] for node in sites}
        self.sizes: dict[int, list[int]] = {node: [] for node in sites}

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(self, *arguments: Any, **more: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.sites)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        keys = []
        for number, message in enumerate(messages):
            parcel = pack(message)
            arrived, node = parcel.open(), message.metadata.dst_node_id
            key = f"{len(self.replies)}-{number}-{node}-{len(self.asked[node])}"
            arrived.metadata.__dict__["_message_id"] = key
            asked = collect_of(opened(arrived.content)) or decode_instruction(arrived.content)
            self.asked[node].append(asked)
            self.sizes[node].append(parcel.size)
            found = self.sites[node](asked, self.clock.now)
            if found is not None:
                due, answer = found
                content: RecordDict = (
                    sealed(serialised_sign(answer)) if isinstance(answer, Sign) else encode(answer)
                )
                self.replies[key] = due, Message(content, reply_to=arrived)
            keys.append(key)
        return keys

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        ready = [key for key in message_ids if key in self.replies and self.replies[key][0] <= self.clock.now]
        return [self.replies.pop(key)[1] for key in ready]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Sequence[Message]:
        raise NotImplementedError


def reply(step: int = 1) -> Reply:
    return Reply("run", step, 1, "train", "site", Content({}, {"sizes": {"nodes": 1}}))


def sign(state: Any = "working", seconds: float = 0.0, step: int = 1, percent: int | None = None) -> Sign:
    return Sign("run", step, 1, "train", JOB, state, seconds, percent)


def honest(lasts: float, begins: float = 0.0) -> Site:
    """A site whose work begins so many seconds after the push and lasts so long; it speaks after its patience."""
    start: list[float] = []

    def site(asked: Asked, now: float) -> tuple[float, Reply | Sign] | None:
        start[:] = start or [now + begins]
        done, sign_at = start[0] + lasts, max(now, start[0]) + PATIENCE
        return (done, reply()) if done <= sign_at else (sign_at, sign(seconds=sign_at - start[0]))

    return site


def mute(lasts: float) -> Site:
    """The same as a site of an earlier release: it says nothing before it is done."""
    return lambda asked, now: (now + lasts, reply())


def says(*answers: Reply | Sign, then: Reply | Sign | None = None) -> Site:
    """Gives these answers one after the other, each after a second, and then always the same or none."""
    left = list(answers)

    def site(asked: Asked, now: float) -> tuple[float, Reply | Sign] | None:
        answer = left.pop(0) if left else then
        return None if answer is None else (now + 1, answer)

    return site


@dataclass(frozen=True)
class Talk:
    """One exchange that is over: what came of it, what was asked, how long it took by the clock."""

    found: Exchanged
    grid: ScriptedGrid
    seconds: float


def talk(folder: Path, sites: dict[int, Site]) -> Talk:
    """An exchange with scripted sites, by a clock of the test's, whose status lies in a folder."""
    clock, config = Clock(), RunConfig.from_flat({"exchange.poll": 0.5, "device": "cpu"})
    grid, monitor = ScriptedGrid(clock, sites), Monitor(folder, config, LineProgress(), Meters())
    start = clock.now
    monitor.begin("0af", [])
    monitor.seen(list(sites))
    monitor.asked(1, "train", list(sites), DEADLINE)
    with pytest.MonkeyPatch.context() as patch:
        own = SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep)
        patch.setattr(exchange_module, "time", own)
        found = Exchange(grid, config.exchange).run(dict.fromkeys(sites, TOLD), DEADLINE, monitor)
    return Talk(found, grid, clock.now - start)
