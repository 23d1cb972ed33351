"""The round loop: one exchange a phase, screening, aggregation, checkpoints.

Row t of the metrics waits for the scores of its model, which come with the first exchange of round t + 1;
a last exchange scores the final model.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Mapping
from typing import Any

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid
from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.errors import QuorumError, WireError
from fedtag.common.logs import Event, fields
from fedtag.common.numerics.noise import entropy_generator
from fedtag.common.settings.sections import ExchangeConfig
from fedtag.common.wire.codec import decode_reply, encode, pack, pack_all
from fedtag.common.wire.envelope import release_of
from fedtag.common.wire.records import Content, Instruction, prefixed
from fedtag.server.exchange.ledger import (
    Exchanged,
    Traffic,
    client_rows,
    pool_scores,
    training_row,
    with_scores,
)
from fedtag.server.exchange.participation import CLOSE, SCORE, SCORING_PHASES
from fedtag.server.exchange.phases import Phases, Turn
from fedtag.server.exchange.screening import check_origin
from fedtag.server.methods.assembly import method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate
from fedtag.server.run.conclusion import conclude
from fedtag.server.run.preparation import prepare
from fedtag.server.state.checkpoint import CheckpointFolder
from fedtag.server.state.monitor import Watch
from fedtag.server.state.progress import Progress, announce_guarantee, announce_untrained
from fedtag.server.state.run_state import Standing
from fedtag.server.strategies.accounting import released_sums
from fedtag.server.strategies.aggregation import Aggregation
from fedtag.server.sums.masked import MaskedSums
from fedtag.server.sums.plain import Outcome, PlainSums, Sums
from fedtag.server.tracking.artefact import artefact_of
from fedtag.server.tracking.meters import Meters
from fedtag.server.tracking.rows import Summary
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.tensorboard import ScalarLog


class Exchange:
    """Push instructions, pull replies, give up at the deadline. A reply counts for the node that was asked."""

    def __init__(self, grid: Grid, config: ExchangeConfig) -> None:
        self.grid = grid
        self.config = config

    def nodes(self, count: int, progress: Progress, watch: Watch, without: Collection[int] = ()) -> list[int]:
        """The nodes that are online, as soon as there are `count`, or after the start time-out.

        Args:
            count: of clients to wait for.
            progress, watch: told that there are fewer, and which ones are there.
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
            watch.seen(nodes)
            time.sleep(min(1.0, 10 * self.config.poll))
            nodes = sorted(set(self.grid.get_node_ids()).difference(without))
        watch.seen(nodes)
        if not nodes or len(nodes) < self.config.quorum * count:
            raise QuorumError(
                f"{len(nodes)} of {count} clients came online within {self.config.start_timeout:g} s: "
                "start the SuperNodes, or lower `clients` or `exchange.quorum`"
            )
        return nodes

    def run(self, instructions: Mapping[int, Instruction], deadline: float, watch: Watch) -> Exchanged:
        """One exchange with the given nodes; `watch` is told about each reply."""
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
        watch.sent(result.bytes_down)
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
                    watch.replied(node, size)
                    self._receive(message, node, instructions[node], result)
            if time.monotonic() - start >= deadline:
                break
            if waiting:
                watch.beat()
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


class Rounds:
    """A run of one method over a grid of clients, written to a run directory.

    Args:
        grid: Flower's, or one that behaves like it.
        config: all settings.
        directory: opened for a new run, or with its earlier checkpoint for one that goes on.
        progress: told about rounds and troubles.
        meters: of the run, where somebody reads them.
    """

    def __init__(
        self,
        grid: Grid,
        config: RunConfig,
        directory: RunDirectory,
        progress: Progress,
        meters: Meters | None = None,
    ) -> None:
        self.config = config
        self.directory = directory
        self.progress = progress
        self.method = method_of(config)
        self.context = ServerContext(config, progress.note)
        self.paths = self.method.scoring_paths(self.context)
        self.checkpoints = CheckpointFolder(directory.path / "checkpoint", config.decisive())
        self.exchange = Exchange(grid, config.exchange)
        self.aggregation = Aggregation(config, entropy_generator())
        self.standing = Standing()
        self.watch = Watch(directory.path, config, progress, meters or Meters())
        self.closing = Turn(config.rounds + 1, due=True)
        self.remark = ""

    def run(self) -> Summary:
        """All rounds from where the directory's checkpoint stands, then the closing exchange and the summary.

        Raises:
            QuorumError: when too few clients answer; the checkpoint then holds the last complete round.
            RunError: when another process writes the directory, or no client can train.
            ConfigError: the settings ask for something that is not installed.
        """
        with self.directory.exclusively(), self.watch:
            return self._run()

    def _run(self) -> Summary:
        sums = released_sums(self.method, self.config.rounds, self.context)
        announce_guarantee(self.config, sums, self.progress)
        restored = Standing.resumed(self.checkpoints, self.directory)
        if restored is not None:
            self.standing, note = restored
            if note:
                self.progress.note(note, fields(Event.CHECKPOINT, round=self.standing.round))
        self.phases = Phases(
            self.exchange, self.method, self.context, self.directory, self.progress, self.standing, self.watch
        )
        self.sums = self._sums()
        self.directory.write_config(self.config.to_nested())
        self.progress.begin(self.config.rounds, self.standing.round)
        pending = [] if self.standing.pending is None else [self.standing.pending]
        self.watch.begin(self.standing.run, [*self.directory.read_rounds(), *pending])
        # Masked sums begin with keys, so that all have told their names when the method speaks.
        personal = (
            self.config.spec.traits.personal(self.config) and not self.config.privacy.secure_aggregation
        )
        if restored is not None and (personal or self.config.train.client_fraction < 1):
            # Sampling and what is told go by names, and Flower's node numbers may be others than before.
            recall = Turn(self.standing.round + 1)
            recall.traffic = self.closing.traffic
            self.phases.run(recall, SCORE)
        with ScalarLog(
            self.directory.path / "tensorboard", first_round=self.standing.round or None
        ) as scalars:
            steps = self.method.preparation(self.context)
            prepare(steps, self._step, self.standing, self.checkpoints)
            for round_number in range(self.standing.round + 1, self.config.rounds + 1):
                self._round(round_number, scalars)
            outcome = self.sums.exchange(self.closing, CLOSE)
            self._score_pending(outcome, True, scalars)
        for reply in outcome.replies.values():
            self.standing.count_tokens(reply.content.values.get("tokens", {}))
        return conclude(self.directory, self.context, self.method, self.standing, self.closing.traffic)

    def _sums(self) -> Sums:
        if not self.config.privacy.secure_aggregation:
            return PlainSums(self.phases, self.standing, self.aggregation)
        return MaskedSums(self.phases, self.standing, self.method, self.aggregation, self.config)

    def _round(self, round_number: int, scalars: ScalarLog) -> None:
        start, standing = time.monotonic(), self.standing
        turn = Turn(round_number)
        outcome = Outcome({}, {})
        weights: Mapping[str, float] = {}
        contributed: dict[str, Mapping[str, Any]] = {}
        for position, phase in enumerate(self.method.phases(round_number, self.context)):
            turn.due = (
                position == 0 and round_number > 1 and (round_number - 1) % self.config.evaluation.every == 0
            )
            outcome = self._exchanged(turn, phase)
            if position == 0:
                self._score_pending(outcome, turn.due, scalars)
            weights = self._combined(phase, outcome) or weights
            contributed |= outcome.contributed
        seconds, traffic = {**turn.seconds, "bookkeeping": turn.left(start)}, turn.traffic
        if round_number == 1:
            before = standing.seconds
            seconds = {name: before.get(name, 0.0) + seconds.get(name, 0.0) for name in {**before, **seconds}}
            traffic = Traffic(standing.up + traffic.up, standing.down + traffic.down)
        assert standing.state is not None
        empty = bool(self.method.released(standing.state, self.context)) and not weights
        counts = (len(outcome.replies), len(outcome.failures))
        standing.pending = training_row(round_number, outcome.told, counts, seconds, traffic, empty)
        standing.weights, standing.failures, standing.round = weights, outcome.failures, round_number
        standing.contributed = contributed
        standing.save(self.checkpoints)
        if round_number == 1:
            announce_untrained(outcome.told, self.progress)
        remark = self.method.remark(standing.state, self.context)
        if remark not in ("", self.remark):
            self.progress.note(remark, fields(Event.PARTLY_LEARNED, round=round_number))
            self.remark = remark
        self.progress.advance(standing.pending)
        self.watch.round_over(standing.pending)

    def _step(self, turn: Turn, phase: Phase) -> None:
        self._combined(phase, self._exchanged(turn, phase))

    def _exchanged(self, turn: Turn, phase: Phase) -> Outcome:
        if phase.letters:
            self.phases.peers.completed(self.phases, turn)
        return self.sums.exchange(turn, phase)

    def _combined(self, phase: Phase, outcome: Outcome) -> Mapping[str, float]:
        """Let the state follow from a phase; the weights of the contributions."""
        standing = self.standing
        assert standing.state is not None
        before = standing.state.section(phase.moves)
        aggregate = Aggregate(outcome.step, {}, outcome.weights)
        memory: Mapping[str, Tensor] = Content(standing.memory).section(phase.moves)
        if phase.gathers == "step":
            aggregate, memory = self.aggregation.moved(before, outcome.step, outcome.weights, memory)
        replies = {client: reply for client, reply in outcome.replies.items() if reply.phase == phase.name}
        standing.state, weights = self.method.combine(standing.state, phase, replies, aggregate, self.context)
        if standing.state.section(phase.moves).keys() != before.keys():
            # What the server optimiser remembers is about another model.
            memory = {}
        others = {
            name: value for name, value in standing.memory.items() if not name.startswith(f"{phase.moves}/")
        }
        standing.memory = {**others, **prefixed(phase.moves, memory)}
        return weights

    def _score_pending(self, outcome: Outcome, due: bool, scalars: ScalarLog) -> None:
        """Complete and write the row of the last round, whose model the replies score."""
        standing = self.standing
        row = standing.pending
        if row is None:
            return
        scores = pool_scores(outcome.told, self.paths) if due else None
        troubles = {**outcome.failures, **standing.failures}
        if scores is not None:
            row = with_scores(row, scores)
            assert standing.state is not None
            standing.consider(
                row.round,
                scores,
                self.method.released(standing.state, self.context),
                choose=self.config.privacy.dp.mode == "off",
                releasable=self.method.releasable(row.round, self.context),
                condensed=self.method.condensed(standing.state, self.context),
            )
            if history := self.method.history(standing.state, self.context):
                artefact_of(self.config.spec).keep_state(self.directory.path, row.round, history)
        rows = client_rows(
            row.round,
            outcome.replies if scores else {},
            troubles,
            standing.weights,
            self.paths,
            scores.path if scores else self.paths[0],
            standing.contributed,
        )
        self.directory.append_round(row)
        self.directory.append_clients(rows)
        scalars.add_round(row)
        self.progress.scored(row)
        self.watch.scored(row)
