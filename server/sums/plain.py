"""Contributions in clear: the server combines what each client sent."""

from __future__ import annotations

import time
from collections.abc import Mapping

from torch import Tensor

from fedtag.common.errors import QuorumError
from fedtag.common.logs import Event, fields
from fedtag.common.wording.counts import plural
from fedtag.server.exchange.phases import Phases
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.progress import Progress
from fedtag.server.state.round import Round
from fedtag.server.state.run_state import RunState
from fedtag.server.strategies.aggregation import Aggregation, Updates
from fedtag.server.strategies.mean import weighted_mean
from fedtag.server.sums.outcome import Outcome, contributed, due_statistics
from fedtag.server.tracking.status import safe


class PlainSums:
    """Every update arrives in clear, is screened, and counts by its weight."""

    def __init__(
        self,
        phases: Phases,
        run_state: RunState,
        method: ServerMethod,
        aggregation: Aggregation,
        context: ServerContext,
    ) -> None:
        self.phases = phases
        self.run_state = run_state
        self.method = method
        self.aggregation = aggregation
        self.context = context

    def exchange(self, current: Round, phase: Phase) -> Outcome:
        replies, failures = self.phases.run(current, phase)
        if phase.gathers == "nothing":
            return Outcome(replies, failures, reported=replies)
        before = time.monotonic()
        contributions = {client: reply for client, reply in replies.items() if reply.phase == phase.name}
        updates: Updates = {
            client: reply.content.section("update") for client, reply in contributions.items()
        }
        counted = {
            client: reply.content.values["sizes"]["train_nodes"]
            for client, reply in contributions.items()
            if updates[client]
        }
        statistics = due_statistics(self.aggregation, self.run_state, contributions)
        weights: Mapping[str, float] = self.aggregation.weights(phase, counted, statistics)
        step: Mapping[str, Tensor] = {}
        if phase.gathers == "step":
            normalisers = {
                client: reply.content.values.get("training", {}).get("normaliser", 0.0)
                for client, reply in contributions.items()
            }
            self._require(current, len(weights))
            updates = self._bounded(current, {client: updates[client] for client in weights}, normalisers)
            nodes = {client: said["nodes"] for client, said in self.run_state.stated.items()}
            step, weights = self.aggregation.combined(updates, weights, normalisers, nodes, self._learned)
        elif phase.gathers == "sum" and weights:
            step = weighted_mean({client: updates[client] for client in weights}, weights)
        current.seconds["aggregate"] = current.seconds.get("aggregate", 0.0) + time.monotonic() - before
        return Outcome(
            replies,
            failures,
            step,
            weights,
            replies,
            contributed(
                contributions,
                counted,
                statistics,
                self.aggregation.similarity_scale,
                self.phases.inbox.declared,
            ),
        )

    def _learned(self, nodes: Mapping[str, int]) -> Mapping[str, int]:
        assert self.run_state.agreement is not None
        return self.method.learned(nodes, len(self.run_state.agreement.classes), self.context)

    def _bounded(self, current: Round, updates: Updates, normalisers: Mapping[str, float]) -> Updates:
        """The updates, none much longer than the others; who sent a longer one is named."""
        kept, cut = self.aggregation.bounded(updates, normalisers)
        note_cut(self.phases.progress, current.number, cut)
        return kept

    def _require(self, current: Round, updates: int) -> None:
        """Stop before a robust rule would have to work with fewer updates than it can."""
        needed = self.phases.fewest
        if 0 < updates < needed:
            raise QuorumError(
                f"round {current.number} stopped: {plural(updates, 'client')} sent an update, "
                f"aggregation.rule = {self.aggregation.config.aggregation.rule} needs {needed}. "
                f"{safe(self.phases.run_state.round)}: resume {self.phases.directory.path}"
            )


def note_cut(progress: Progress, number: int, cut: Mapping[str, float]) -> None:
    """Say whose updates were cut in a round; `cut` is how many times as long as the median one each was."""
    for client, times in sorted(cut.items()):
        progress.note(
            f"round {number}: the update of {client} is {times:.3g} times as long as the median one, and is cut to "
            "that length (aggregation.norm-factor)",
            fields(Event.UPDATE_CUT, round=number, client=client),
        )
