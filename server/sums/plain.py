"""Updates of a phase as one: in clear, where the server combines what each client sent, or under masks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from fedtag.common.errors import QuorumError
from fedtag.common.methods.records import Record
from fedtag.common.secure.upload import Opened
from fedtag.common.wire.records import Reply
from fedtag.server.exchange.ledger import columns_of
from fedtag.server.exchange.phases import Phases, Turn
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.run_state import Standing
from fedtag.server.strategies.aggregation import Aggregation
from fedtag.server.strategies.weights import ClientStatistics, assessments, parse_statistics

# What clients tell of their condensed graphs that belongs into their rows.
CONDENSATION = ("core", "nodes", "copied", "close")


@dataclass(frozen=True)
class Outcome:
    """What came of a phase.

    Args:
        replies: usable ones, by client; also of clients that only scored.
        failures: reasons, by client.
        step: the combined update; empty without contributors, and in phases that sum nothing.
        weights: of those who contributed.
        told: by whom scores, losses and counts of nodes were told: the clients, or one that stands for all.
        contributed: what contributors said of their work, by client: steps, normaliser, statistics.
    """

    replies: Mapping[str, Reply]
    failures: Mapping[str, str]
    step: Mapping[str, Tensor] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    told: Mapping[str, Reply] = field(default_factory=dict)
    contributed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Gathered:
    """A sum under masks that was opened, and how it came about.

    Args:
        replies: usable ones, by client; also of clients that only scored.
        failures: reasons, by client.
        contributions: the replies of those who are in the sum.
        weights: of all members of the block.
        opened: the sum.
    """

    replies: Mapping[str, Reply]
    failures: Mapping[str, str]
    contributions: Mapping[str, Reply]
    weights: Mapping[str, float]
    opened: Opened


class Sums(Protocol):
    """How updates come together."""

    def exchange(self, turn: Turn, phase: Phase) -> Outcome:
        """Carry out a phase, and combine its updates if it has any.

        Raises:
            QuorumError: too few clients answered.
        """
        ...


class PlainSums:
    """Every update arrives in clear, is screened, and counts by its weight."""

    def __init__(self, phases: Phases, standing: Standing, aggregation: Aggregation) -> None:
        self.phases = phases
        self.standing = standing
        self.aggregation = aggregation

    def exchange(self, turn: Turn, phase: Phase) -> Outcome:
        replies, failures = self.phases.run(turn, phase)
        if not phase.sums:
            return Outcome(replies, failures, told=replies)
        before = time.monotonic()
        contributions = {client: reply for client, reply in replies.items() if reply.phase == phase.name}
        updates = {client: reply.content.section("update") for client, reply in contributions.items()}
        train_nodes = {client: sizes_of(contributions[client])["train_nodes"] for client in updates}
        counted = {client: count for client, count in train_nodes.items() if updates[client]}
        statistics = due_statistics(self.aggregation, self.standing, contributions)
        weights: Mapping[str, float] = self.aggregation.weights(counted, statistics)
        normalisers = {
            client: reply.content.values.get("training", {}).get("normaliser", 0.0)
            for client, reply in contributions.items()
        }
        self._require(turn, len(weights))
        step, weights = self.aggregation.combined(updates, weights, normalisers)
        turn.seconds["aggregate"] = turn.seconds.get("aggregate", 0.0) + time.monotonic() - before
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
                self.phases.reception.declared,
            ),
        )

    def _require(self, turn: Turn, updates: int) -> None:
        """Stop before a robust rule would have to work with fewer updates than it can."""
        needed = self.phases.fewest
        if 0 < updates < needed:
            raise QuorumError(
                f"round {turn.number} stopped: {updates} clients sent an update, "
                f"aggregation.rule = {self.aggregation.config.aggregation.rule} needs {needed}. "
                f"Complete rounds are safe: continue with --resume {self.phases.directory.path}"
            )


def sizes_of(reply: Reply) -> Mapping[str, int]:
    """The counts of nodes in a screened reply."""
    sizes: Mapping[str, int] = reply.content.values["sizes"]
    return sizes


def due_statistics(
    aggregation: Aggregation, standing: Standing, contributions: Mapping[str, Reply]
) -> dict[str, ClientStatistics]:
    """The statistics from which weights are made now: those that came, or those of the round before.

    The newest ones are kept in the standing.
    """
    told = {
        client: reply.content.values["statistics"]
        for client, reply in contributions.items()
        if "statistics" in reply.content.values
    }
    now = {**standing.statistics, **told}
    due = told if aggregation.config.aggregation.statistics == "current" else standing.statistics
    standing.statistics = now
    return {client: parse_statistics(table, len(table["distribution"])) for client, table in due.items()}


def contributed(
    contributions: Mapping[str, Reply],
    train_nodes: Mapping[str, int],
    statistics: Mapping[str, ClientStatistics],
    scaling: float,
    declared: Mapping[str, Record],
) -> dict[str, dict[str, Any]]:
    """What the rows of clients say of their contributions."""
    found = assessments(train_nodes, statistics, scaling)
    rows = {}
    for client, reply in contributions.items():
        training = reply.content.values.get("training") or {}
        told = reply.content.values.get("condensation") or {}
        rows[client] = {
            "steps": training.get("steps"),
            "normaliser": training.get("normaliser"),
            "statistics": vars(found[client]) if client in found else {},
            "condensation": {name: told[name] for name in CONDENSATION if name in told},
            "columns": columns_of(reply, declared),
        }
    return rows
