"""The round loop: one exchange a phase, screening, aggregation, checkpoints.

Row t of the metrics waits for the scores of its model, which come with the first exchange of round t + 1;
a last exchange scores the final model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from fedtag.common.audit_log.log import AuditLog
from fedtag.common.config import RunConfig
from fedtag.common.logs import Event, fields
from fedtag.common.models.parameters import fingerprint
from fedtag.common.numerics.noise import entropy_generator
from fedtag.common.wire.records import Content, prefixed
from fedtag.server.exchange.exchange import Exchange, Grid
from fedtag.server.exchange.ledger import (
    client_rows,
    pool_scores,
    training_row,
    with_scores,
)
from fedtag.server.exchange.participation import CLOSE, SCORE
from fedtag.server.exchange.phases import Phases
from fedtag.server.methods.assembly import method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import course
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, ServerState
from fedtag.server.run.conclusion import conclude
from fedtag.server.run.preparation import prepare
from fedtag.server.state.checkpoint import CHECKPOINT, CheckpointFolder
from fedtag.server.state.monitor import Monitor
from fedtag.server.state.progress import Progress, announce_extension, announce_guarantee, check_learning
from fedtag.server.state.round import Round, Traffic, scores_due
from fedtag.server.state.run_state import RunState
from fedtag.server.strategies.accounting import spent
from fedtag.server.strategies.aggregation import Aggregation, check_noised, check_phases
from fedtag.server.sums.masked import MaskedSums
from fedtag.server.sums.outcome import Outcome, Sums
from fedtag.server.sums.plain import PlainSums
from fedtag.server.tracking.artefact import artefact_of
from fedtag.server.tracking.meters import Meters
from fedtag.server.tracking.rows import Summary
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.run_log import RunLog
from fedtag.server.tracking.trackers.following import Trackers, chosen_trackers, trackers_of

Engine = Callable[[Phases, Aggregation], Sums]
Witness = Callable[[int, Phase, ServerState, Outcome], None]
"""Told a round, one of its phases, the state with which clients were asked, and what came of that."""


class Rounds:
    """A run of one method over a grid of clients, written to a run directory.

    Args:
        grid: Flower's, or one that behaves like it.
        config: all settings.
        directory: opened for a new run, or with its earlier checkpoint for one that goes on.
        progress: told about rounds and troubles.
        meters: of the run, where somebody reads them.
        witness: told what came of each exchange of a round, before the method's state follows from it; in a simulation
            that an audit does again, nowhere else.
        log, flower_run: the coordinator's audit log, and Flower's number of the run; a simulation has neither.
        report: whether the report is written at the end, which takes longer than rounds over a few nodes.
        engine: makes what trains the clients of a simulation otherwise than by exchanges with each.
    """

    def __init__(
        self,
        grid: Grid,
        config: RunConfig,
        directory: RunDirectory,
        progress: Progress,
        meters: Meters | None = None,
        witness: Witness | None = None,
        log: AuditLog | None = None,
        flower_run: str | None = None,
        report: bool = True,
        engine: Engine | None = None,
    ) -> None:
        self.config = config
        self.engine = engine
        self.report = report
        self.witness = witness
        self.log = RunLog(log)
        self.directory = directory
        self.progress = progress
        self.method = method_of(config)
        self.context = ServerContext(config, progress.note, flower_run=flower_run)
        self.paths = self.method.scoring_paths(self.context)
        self.checkpoints = CheckpointFolder(directory.path / CHECKPOINT, config.decisive())
        self.exchange = Exchange(grid, config.exchange)
        self.aggregation = Aggregation(config, entropy_generator())
        self.run_state = RunState()
        self.monitor = Monitor(directory.path, config, progress, meters or Meters(), flower_run=flower_run)
        self.closing = Round(config.rounds + 1, due=True)
        self.remark = ""

    def run(self) -> Summary:
        """All rounds from where the directory's checkpoint stands, then the closing exchange and the summary.

        Raises:
            QuorumError: when too few clients answer; the checkpoint then holds the last complete round.
            RunError: when another process writes the directory.
            DataError: when no client has a training node; nothing is released then.
            ConfigError: the settings ask for something that is not installed, or that a phase does not allow.
        """
        with self.directory.exclusively(), self.monitor:
            try:
                return self._run()
            except BaseException as error:
                self.log.stopped(self.run_state.run, error)
                raise

    def _run(self) -> Summary:
        phases, own = planned(self.config)
        # A choice by validation would be a query of its own.
        self.chooses = own is None and self.config.chooses_round
        due = own or spent(self.config, sum(phase.sums for phase in phases), 0)
        announce_guarantee(due, self.config.rounds, self.progress)
        restored = RunState.resumed(self.checkpoints, self.directory)
        if restored is not None:
            self.run_state, note = restored
            if note:
                self.progress.note(note, fields(Event.CHECKPOINT, round=self.run_state.round))
        told = self.progress, self.run_state, self.monitor, self.log
        self.phases = Phases(self.exchange, self.method, self.context, self.directory, *told)
        self.sums = self._sums()
        self.directory.write_config(self.config.without_places().to_nested())
        self.log.began(self.run_state.run, self.config.digest(), self.config.parent.run)
        announce_extension(self.config, self.run_state.round, self.progress)
        self.progress.begin(self.config.rounds, self.run_state.round)
        pending = [] if self.run_state.pending is None else [self.run_state.pending]
        self.monitor.begin(self.run_state.run, [*self.directory.read_rounds(), *pending])
        steps = self.method.preparation(self.context)
        nameless = restored is not None and self.config.train.client_fraction < 1
        unfit = self.config.parent.model and self.run_state.state is None and not steps
        if self.engine or nameless or unfit:
            # Sampling goes by names, and Flower's node numbers may be others than before; and a released model must be
            # known to fit what clients have before they get it, which steps before round 1 tell as well. Clients that
            # are trained at once have no other exchange.
            recall = Round(self.run_state.round + 1)
            recall.traffic = self.closing.traffic
            self.phases.run(recall, SCORE)
        run, done = self.run_state.run, self.run_state.round
        with trackers_of(self.config, self.directory, run, done, self.progress.note) as trackers:
            prepare(steps, self._step, self.run_state, self.checkpoints)
            for round_number in range(self.run_state.round + 1, self.config.rounds + 1):
                self._round(round_number, trackers)
            outcome = self.sums.exchange(self.closing, CLOSE)
            self._score_pending(outcome, True, trackers)
            for reply in outcome.replies.values():
                self.run_state.count_tokens(reply.content.values.get("tokens", {}))
            closing = self.closing.traffic
            summary = conclude(
                self.directory, self.context, self.method, self.run_state, closing, self.report
            )
            trackers.finished(summary)
        best = self.run_state.best
        self.log.released(
            self.run_state.run,
            self.run_state.best_round,
            fingerprint(best) if best else None,
            self.directory.path,
        )
        return summary

    def _sums(self) -> Sums:
        if self.engine is not None:
            return self.engine(self.phases, self.aggregation)
        if not self.config.privacy.secure_aggregation:
            return PlainSums(self.phases, self.run_state, self.method, self.aggregation, self.context)
        return MaskedSums(self.phases, self.run_state, self.method, self.aggregation, self.config)

    def _round(self, round_number: int, trackers: Trackers) -> None:
        start, run_state = time.monotonic(), self.run_state
        current = Round(round_number)
        outcome = Outcome({}, {})
        weights: Mapping[str, float] = {}
        contributed: dict[str, Mapping[str, Any]] = {}
        for position, phase in enumerate(self.method.phases(round_number, self.context)):
            current.due = position == 0 and scores_due(round_number, self.config.evaluation.every)
            outcome = self._exchanged(current, phase)
            if position == 0:
                self._score_pending(outcome, current.due, trackers)
            if self.witness is not None:
                assert run_state.state is not None
                self.witness(round_number, phase, run_state.state, outcome)
            weights = self._combined(phase, outcome) or weights
            contributed |= outcome.contributed
        seconds, traffic = {**current.seconds, "bookkeeping": current.left(start)}, current.traffic
        if round_number == 1:
            check_learning(outcome.reported, outcome.failures, self.progress)
            before = run_state.seconds
            seconds = {name: before.get(name, 0.0) + seconds.get(name, 0.0) for name in {**before, **seconds}}
            traffic = Traffic(run_state.up + traffic.up, run_state.down + traffic.down)
        assert run_state.state is not None
        empty = bool(self.method.released(run_state.state, self.context)) and not weights
        counts = (len(outcome.replies), len(outcome.failures))
        run_state.pending = training_row(round_number, outcome.reported, counts, seconds, traffic, empty)
        run_state.weights, run_state.failures, run_state.round = weights, outcome.failures, round_number
        run_state.contributed = contributed
        run_state.save(self.checkpoints)
        remark = self.method.remark(run_state.state, self.context)
        if remark not in ("", self.remark):
            self.progress.note(remark, fields(Event.PARTLY_LEARNED, round=round_number))
            self.remark = remark
        self.progress.advance(run_state.pending)
        self.monitor.round_over(run_state.pending)

    def _step(self, current: Round, phase: Phase) -> None:
        self._combined(phase, self._exchanged(current, phase))

    def _exchanged(self, current: Round, phase: Phase) -> Outcome:
        if phase.letters:
            self.phases.introduced(current)
        return self.sums.exchange(current, phase)

    def _combined(self, phase: Phase, outcome: Outcome) -> Mapping[str, float]:
        """Let the state follow from a phase; the weights of the contributions."""
        run_state = self.run_state
        assert run_state.state is not None
        before = run_state.state.section(phase.moves)
        aggregate = Aggregate(outcome.step, {}, outcome.weights)
        memory: Mapping[str, Tensor] = Content(run_state.memory).section(phase.moves)
        if phase.gathers == "step":
            aggregate, memory = self.aggregation.moved(before, outcome.step, outcome.weights, memory)
        replies = {client: reply for client, reply in outcome.replies.items() if reply.phase == phase.name}
        run_state.state, weights = self.method.combine(
            run_state.state, phase, replies, aggregate, self.context
        )
        if run_state.state.section(phase.moves).keys() != before.keys():
            # What the server optimiser remembers is about another model.
            memory = {}
        others = {
            name: value for name, value in run_state.memory.items() if not name.startswith(f"{phase.moves}/")
        }
        run_state.memory = {**others, **prefixed(phase.moves, memory)}
        return weights

    def _score_pending(self, outcome: Outcome, due: bool, trackers: Trackers) -> None:
        """Complete and write the row of the last round, whose model the replies score."""
        run_state = self.run_state
        row = run_state.pending
        if row is None:
            return
        most, metric = self.config.aggregation.max_share, self.config.evaluation.metric
        scores = pool_scores(outcome.reported, self.paths, most, metric) if due else None
        troubles = {**outcome.failures, **run_state.failures}
        if scores is not None:
            row = with_scores(row, scores, self.chooses)
            assert run_state.state is not None
            run_state.consider(
                row.round,
                scores,
                self.method.released(run_state.state, self.context),
                choose=self.chooses,
                releasable=self.method.releasable(row.round, self.context),
                condensed=self.method.condensed(run_state.state, self.context),
            )
            if history := self.method.history(run_state.state, self.context):
                artefact_of(self.config.spec).keep_state(self.directory.path, row.round, history)
        rows = client_rows(
            row.round,
            outcome.replies if scores else {},
            troubles,
            run_state.weights,
            self.paths,
            scores.path if scores else self.paths[0],
            run_state.contributed,
        )
        self.directory.append_round(row)
        self.directory.append_clients(rows)
        trackers.scored(row)
        self.progress.scored(row)
        self.monitor.scored(row)


def planned(config: RunConfig) -> tuple[Sequence[Phase], Mapping[str, Any] | None]:
    """All exchanges of a run, and what noise of its method's own guarantees; nothing is written.

    Raises:
        ConfigError: the settings ask for something that is not installed, or that a phase does not allow.
    """
    method, context = method_of(config), ServerContext(config)
    chosen_trackers(config.tracking)
    phases, own = course(method, config.rounds, context), method.guarantee(None, context)
    check_phases(phases, config)
    if own is not None:
        check_noised(phases, own, config)
    return phases, own
