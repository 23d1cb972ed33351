"""Instructions out, replies in, over Flower's grid."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Mapping

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid as Grid

from fedtag.common.errors import QuorumError, WireError
from fedtag.common.logs import Event, fields
from fedtag.common.settings.sections import ExchangeConfig
from fedtag.common.wire.codec import decode_reply, encode, pack, pack_all
from fedtag.common.wire.envelope import release_of
from fedtag.common.wire.records import Instruction
from fedtag.server.exchange.participation import SCORING_PHASES
from fedtag.server.exchange.screening import check_origin
from fedtag.server.state.monitor import Monitor
from fedtag.server.state.progress import Progress
from fedtag.server.state.round import Exchanged


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
        while waiting:
            # One look at least: a grid in this process has every reply when push returns, however long that took.
            for message in self.grid.pull_messages(list(waiting)):
                node = waiting.pop(message.metadata.reply_to_message_id, None)
                if node is not None:
                    size = pack(message).size
                    result.bytes_up += size
                    monitor.replied(node, size)
                    self._receive(message, node, instructions[node], result)
            if time.monotonic() - start >= deadline:
                break
            if waiting:
                monitor.beat()
                time.sleep(self.config.poll)
        result.failures |= dict.fromkeys(waiting.values(), f"no reply within {deadline:g} s")
        result.seconds = time.monotonic() - start
        return result

    def _receive(self, message: Message, node: int, instruction: Instruction, result: Exchanged) -> None:
        if message.has_error():
            result.failures[node] = f"error {message.error.code}: {message.error.reason}"
            return
        try:
            reply = decode_reply(message.content, self.config.max_message_mb * 2**20)
            check_origin(reply, instruction)
            result.releases[node] = release_of(message.content)
        except WireError as error:
            result.failures[node] = str(error)
            return
        result.replies[node] = reply
