"""Instructions out, replies in, over Flower's grid."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import Grid as Grid

from fedtag.common.errors import QuorumError, WireError
from fedtag.common.logs import Event, fields
from fedtag.common.settings.sections import ExchangeConfig
from fedtag.common.wire.codec import decode_reply, encode, pack, pack_all
from fedtag.common.wire.envelope import opened, release_of, sealed
from fedtag.common.wire.limits import MAX_REASON
from fedtag.common.wire.records import Instruction, Reply
from fedtag.common.wire.signs import Collect, Sign, serialised_sign, sign_of
from fedtag.common.wording.counts import plural
from fedtag.server.exchange.awaited import Awaited
from fedtag.server.exchange.participation import SCORING_PHASES
from fedtag.server.exchange.screening import check_origin
from fedtag.server.state.monitor import Monitor
from fedtag.server.state.progress import Progress
from fedtag.server.state.round import Exchanged

DECODERS = 4
"""Replies that are read at the same time, while the server waits for others."""
MOST_TIMES = 2
"""How often an instruction goes out in one exchange to a node that loses its work."""


class Exchange:
    """Push instructions, pull replies, give up when time is over. A reply counts for the node that was asked."""

    def __init__(self, grid: Grid, config: ExchangeConfig) -> None:
        self.grid = grid
        self.config = config
        # One in this process knows the sites behind its nodes.
        self.called: Mapping[int, str] = getattr(grid, "called", {})

    def nodes(
        self, count: int, progress: Progress, monitor: Monitor, without: Collection[int] = ()
    ) -> list[int]:
        """The nodes that are online, as soon as there are `count`, or after the start time-out.

        Args:
            count: of clients to wait for.
            progress, monitor: told that there are fewer, and which ones are there.
            without: nodes that are known to be gone, whatever Flower says.

        Raises:
            QuorumError: if fewer than the quorum of `count` came.
        """
        start = time.monotonic()
        nodes = sorted(set(self.grid.get_node_ids()).difference(without))
        if len(nodes) < count:
            waiting = fields(Event.WAITING, clients=len(nodes), wanted=count)
            progress.note(f"waiting for {plural(count, 'client')}, {len(nodes)} online", waiting)
        while len(nodes) < count and time.monotonic() - start < self.config.start_timeout:
            monitor.seen(nodes)
            time.sleep(min(1.0, 10 * self.config.poll))
            nodes = sorted(set(self.grid.get_node_ids()).difference(without))
        monitor.seen(nodes)
        if not nodes or len(nodes) < self.config.quorum * count:
            raise QuorumError(
                f"{len(nodes)} of {plural(count, 'client')} came online within {self.config.start_timeout:g} s: "
                "start the SuperNodes, or lower `clients` or `exchange.quorum`"
            )
        return nodes

    def run(self, instructions: Mapping[int, Instruction], deadline: float, monitor: Monitor) -> Exchanged:
        """One exchange with the given nodes; `monitor` is told about each reply, and about each sign that one works."""
        return Conversation(self.grid, self.config, instructions, deadline, monitor).held()


class Conversation:
    """One exchange: what went to each node, and what it has answered.

    A node that works for long says so, and is asked for its answer until it has one or its time is over; it has a
    single message at a time.

    Args:
        grid: Flower's.
        config: of the exchange.
        instructions: by node.
        deadline: see `Awaited`.
        monitor: told what comes.
    """

    def __init__(
        self,
        grid: Grid,
        config: ExchangeConfig,
        instructions: Mapping[int, Instruction],
        deadline: float,
        monitor: Monitor,
    ) -> None:
        self.grid = grid
        self.config = config
        self.start = time.monotonic()
        self.instructions = instructions
        self.deadline = deadline
        self.monitor = monitor
        self.result = Exchanged()
        self.awaited: dict[int, Awaited] = {}
        self._jobs: dict[int, str] = {}
        written: dict[Hashable, bytes | ArrayRecord] = {}
        self._contents = {node: encode(one, written) for node, one in instructions.items()}

    def held(self) -> Exchanged:
        """What came of it."""
        keys = self._push({node: (content, self.deadline) for node, content in self._contents.items()})
        self.awaited = {node: Awaited(self.start, self.deadline, key) for node, key in keys.items()}
        unreached = self.instructions.keys() - keys.keys()
        self.result.failures |= dict.fromkeys(sorted(unreached), "the instruction could not be delivered")
        reading: dict[Future[Arrived], int] = {}
        with ThreadPoolExecutor(DECODERS, thread_name_prefix="fedtag-decoder") as decoders:
            while self.awaited:
                # One look at least, and one after the deadline: a grid in this process has every reply when push
                # returns, however long that took, and what came in time counts, whenever it is read.
                late = {node for node, one in self.awaited.items() if one.due <= time.monotonic()}
                for node, message in self._pulled():
                    now = time.monotonic()
                    reading[decoders.submit(self._read, message, self.instructions[node], now)] = node
                for future in [one for one in reading if one.done()]:
                    self._heard(reading.pop(future), future.result())
                self._leave(late.difference(reading.values()))
                self._ask()
                self.monitor.beat()
                self._pause(reading)
        order = [node for node in self.instructions if node in self.result.replies]
        self.result.replies = {node: self.result.replies[node] for node in order}
        self.result.seconds = time.monotonic() - self.start
        return self.result

    def _push(self, contents: Mapping[int, tuple[RecordDict, float]]) -> dict[int, str]:
        """Send something to nodes, each for so many seconds; the messages' identifiers, where one could be sent."""
        messages = [
            Message(
                content,
                dst_node_id=node,
                message_type="evaluate" if self.instructions[node].phase in SCORING_PHASES else "train",
                ttl=seconds + 60,
                group_id=str(self.instructions[node].round),
            )
            for node, (content, seconds) in contents.items()
        ]
        size = sum(parcel.size for parcel in pack_all(messages))
        # The grid returns an empty identifier for a node that it cannot reach, and none at all for too large messages.
        pushed = list(self.grid.push_messages(messages)) or [""] * len(messages)
        self.result.bytes_down += size
        self.monitor.sent(size)
        return {node: key for key, node in zip(pushed, contents, strict=True) if key}

    def _pulled(self) -> Iterator[tuple[int, Message]]:
        """The messages that have come, and from which node."""
        nodes = {one.key: node for node, one in self.awaited.items() if one.key}
        for message in self.grid.pull_messages(list(nodes)) if nodes else ():
            node = nodes.pop(message.metadata.reply_to_message_id, None)
            if node is not None:
                self.awaited[node].key = ""
                yield node, message

    def _read(self, message: Message, instruction: Instruction, now: float) -> Arrived:
        """What came of a message, by a thread of its own: a reply that is slow to read delays no other one."""
        size = pack(message).size
        if message.has_error():
            reason = f"error {message.error.code}: {(message.error.reason or '')[:MAX_REASON]}"
            return Arrived(size, now, failure=reason)
        try:
            sign = sign_of(opened(message.content))
            if sign is not None:
                check_origin(sign, instruction)
                return Arrived(size, now, sign=sign)
            reply = decode_reply(message.content, self.config.max_message_mb * 2**20)
            check_origin(reply, instruction)
            return Arrived(size, now, reply, release_of(message.content))
        except WireError as error:
            return Arrived(size, now, failure=str(error))

    def _heard(self, node: int, arrived: Arrived) -> None:
        """A message has been read."""
        self.result.bytes_up += arrived.size
        if arrived.sign is not None:
            self._works(node, arrived, arrived.sign)
            return
        del self.awaited[node]
        self.monitor.replied(node, arrived.size)
        if arrived.reply is None:
            self.result.failures[node] = arrived.failure
        else:
            self.result.replies[node], self.result.releases[node] = arrived.reply, arrived.release

    def _works(self, node: int, arrived: Arrived, sign: Sign) -> None:
        """A node has said that it works, or that its work is lost."""
        one = self.awaited[node]
        self.result.signs.setdefault(node, []).append(arrived.size)
        self._jobs[node] = sign.job
        one.next_at = arrived.at + min(1.0, 10 * self.config.poll)
        if sign.state == "working":
            one.at_work(arrived.at, sign.seconds)
        elif sign.state == "lost":
            one.lost()
        left = max(other.due for other in self.awaited.values()) - time.monotonic()
        seconds = arrived.at - one.began if one.told and one.began is not None else None
        self.monitor.works(node, arrived.size, seconds, sign.percent, max(0.0, left))
        if one.again and one.times == MOST_TIMES:
            del self.awaited[node]
            self.result.failures[node] = (
                f"its work was lost {MOST_TIMES} times, with the process that carried it out: see its worker's log"
            )

    def _leave(self, late: Collection[int]) -> None:
        """Go on without nodes whose time was over before the last look."""
        for node in late:
            one = self.awaited.get(node)
            # The last thing that was read may have been that its work began late.
            if one is not None and one.due <= time.monotonic():
                del self.awaited[node]
                self.result.failures[node] = one.too_late

    def _ask(self) -> None:
        """Ask nodes for the answer that they work on, or to work on it anew, a moment after their signs."""
        now = time.monotonic()
        due = [node for node, one in self.awaited.items() if one.next_at is not None and one.next_at <= now]
        if not due:
            return
        contents = {
            node: (self._next(node), max(0.0, one.due - now)) for node in due for one in [self.awaited[node]]
        }
        keys = self._push(contents)
        for node in due:
            one = self.awaited[node]
            one.next_at, one.key = None, keys.get(node, "")
            one.times += one.again
            one.again = False
            if not one.key:
                del self.awaited[node]
                self.result.failures[node] = "the request for its answer could not be delivered"

    def _next(self, node: int) -> RecordDict:
        """The content of the next message to a node."""
        if self.awaited[node].again:
            return self._contents[node]
        one = self.instructions[node]
        return sealed(serialised_sign(Collect(one.run, one.step, one.round, one.phase, self._jobs[node])))

    def _pause(self, reading: Collection[Future[Arrived]]) -> None:
        """Until the next look is due."""
        moments = [
            one.due if one.next_at is None else min(one.due, one.next_at)
            for one in self.awaited.values()
            if one.key or one.next_at is not None
        ]
        if moments:
            time.sleep(max(0.0, min(self.config.poll, min(moments) - time.monotonic())))
        elif self.awaited:
            # There is nothing to pull before something has been read.
            wait(reading, self.config.poll, FIRST_COMPLETED)


@dataclass(frozen=True)
class Arrived:
    """What a node has sent: its size in bytes, when it came, and a reply with the release that wrote it, a sign that it
    works, or why there is neither.
    """

    size: int
    at: float
    reply: Reply | None = None
    release: str = ""
    failure: str = ""
    sign: Sign | None = None
