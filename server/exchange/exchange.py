"""Instructions out, replies in, over Flower's grid."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid as Grid

from fedtag.common.errors import QuorumError, WireError
from fedtag.common.logs import Event, fields
from fedtag.common.settings.sections import ExchangeConfig
from fedtag.common.wire.codec import decode_reply, encode, pack, pack_all
from fedtag.common.wire.envelope import release_of
from fedtag.common.wire.limits import MAX_REASON
from fedtag.common.wire.records import Instruction, Reply
from fedtag.server.exchange.participation import SCORING_PHASES
from fedtag.server.exchange.screening import check_origin
from fedtag.server.state.monitor import Monitor
from fedtag.server.state.progress import Progress
from fedtag.server.state.round import Exchanged

DECODERS = 4
"""Replies that are read at the same time, while the server waits for others."""


class Exchange:
    """Push instructions, pull replies, give up at the deadline. A reply counts for the node that was asked."""

    def __init__(self, grid: Grid, config: ExchangeConfig) -> None:
        self.grid = grid
        self.config = config

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
            progress.note(f"waiting for {count} clients, {len(nodes)} are online", waiting)
        while len(nodes) < count and time.monotonic() - start < self.config.start_timeout:
            monitor.seen(nodes)
            time.sleep(min(1.0, 10 * self.config.poll))
            nodes = sorted(set(self.grid.get_node_ids()).difference(without))
        monitor.seen(nodes)
        if not nodes or len(nodes) < self.config.quorum * count:
            raise QuorumError(
                f"{len(nodes)} of {count} clients came online within {self.config.start_timeout:g} s: "
                "start the SuperNodes, or lower `clients` or `exchange.quorum`"
            )
        return nodes

    def run(self, instructions: Mapping[int, Instruction], deadline: float, monitor: Monitor) -> Exchanged:
        """One exchange with the given nodes; `monitor` is told about each reply."""
        start = time.monotonic()
        result = Exchanged()
        written: dict[Hashable, ArrayRecord] = {}
        messages = [
            Message(
                encode(instruction, written),
                dst_node_id=node,
                message_type="evaluate" if instruction.phase in SCORING_PHASES else "train",
                ttl=deadline + 60,
                group_id=str(instruction.round),
            )
            for node, instruction in instructions.items()
        ]
        result.bytes_down = sum(parcel.size for parcel in pack_all(messages))
        # The grid returns an empty identifier for a node that it cannot reach, and none at all for too large messages.
        pushed = list(self.grid.push_messages(messages)) or [""] * len(messages)
        monitor.sent(result.bytes_down)
        waiting = {key: node for key, node in zip(pushed, instructions, strict=True) if key}
        unreached = [node for node in instructions if node not in waiting.values()]
        result.failures |= dict.fromkeys(unreached, "the instruction could not be delivered")
        with ThreadPoolExecutor(DECODERS, thread_name_prefix="fedtag-decoder") as decoders:
            arrived: dict[int, Future[Arrived]] = {}
            counted: set[int] = set()
            while waiting:
                # One look at least, and one after the deadline: a grid in this process has every reply when push
                # returns, however long that took, and what came in time counts, whenever it is read.
                late = time.monotonic() - start >= deadline
                for message in self.grid.pull_messages(list(waiting)):
                    node = waiting.pop(message.metadata.reply_to_message_id, None)
                    if node is not None:
                        arrived[node] = decoders.submit(self._read, message, instructions[node])
                self._count(
                    {node: one for node, one in arrived.items() if one.done()}, counted, result, monitor
                )
                if late:
                    break
                if waiting:
                    monitor.beat()
                    time.sleep(max(0.0, min(self.config.poll, start + deadline - time.monotonic())))
            self._count(arrived, counted, result, monitor)
        for node, future in arrived.items():
            one = future.result()
            if one.reply is None:
                result.failures[node] = one.failure
            else:
                result.replies[node], result.releases[node] = one.reply, one.release
        result.failures |= dict.fromkeys(waiting.values(), f"no reply within {deadline:g} s")
        result.seconds = time.monotonic() - start
        return result

    def _read(self, message: Message, instruction: Instruction) -> Arrived:
        """What came of a message, by a thread of its own: a reply that is slow to read delays no other one."""
        size = pack(message).size
        if message.has_error():
            return Arrived(
                size, failure=f"error {message.error.code}: {(message.error.reason or '')[:MAX_REASON]}"
            )
        try:
            reply = decode_reply(message.content, self.config.max_message_mb * 2**20)
            check_origin(reply, instruction)
            return Arrived(size, reply, release_of(message.content))
        except WireError as error:
            return Arrived(size, failure=str(error))

    def _count(
        self, read: Mapping[int, Future[Arrived]], counted: set[int], result: Exchanged, monitor: Monitor
    ) -> None:
        """Tell of each message once, when it has been read."""
        for node in read.keys() - counted:
            size = read[node].result().size
            result.bytes_up += size
            monitor.replied(node, size)
            counted.add(node)


@dataclass(frozen=True)
class Arrived:
    """What a node has sent: its size in bytes, and a reply with the release that wrote it, or why there is none."""

    size: int
    reply: Reply | None = None
    release: str = ""
    failure: str = ""
