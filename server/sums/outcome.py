"""What came of a phase whose contributions may come together, in clear or under masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from fedtag.common.methods.records import Record
from fedtag.common.secure.upload import Opened
from fedtag.common.wire.records import Reply
from fedtag.server.exchange.ledger import columns_of
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.round import Round
from fedtag.server.state.run_state import RunState
from fedtag.server.strategies.aggregation import Aggregation
from fedtag.server.strategies.weights import ClientStatistics, assessments, parse_statistics

# What clients tell of their condensed graphs that belongs into their rows.
CONDENSATION = ("core", "nodes", "copied", "close", "approximate")


@dataclass(frozen=True)
class Outcome:
    """What came of a phase.

    Args:
        replies: usable ones, by client; also of clients that only scored.
        failures: reasons, by client.
        step: the combined update; empty without contributors, and in phases that sum nothing.
        weights: of those who contributed.
        reported: who reported scores, losses and counts of nodes: the clients, or one that stands for all.
        contributed: what contributors said of their work, by client: steps, normaliser, statistics.
        opened: under masks, the mean updates that the server saw, by those who are in them.
    """

    replies: Mapping[str, Reply]
    failures: Mapping[str, str]
    step: Mapping[str, Tensor] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    reported: Mapping[str, Reply] = field(default_factory=dict)
    contributed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    opened: Mapping[tuple[str, ...], Mapping[str, Tensor]] = field(default_factory=dict)


@dataclass(frozen=True)
class Gathered:
    """A sum under masks that was opened, and how it came about.

    Args:
        replies: usable ones, by client; also of clients that only scored.
        failures: reasons, by client.
        contributions: the replies of those who are in the sum.
        weights: of all members of the block.
        sums: by group, or the one over all, by those who are in it.
        opened: what all together say of statistics.
    """

    replies: Mapping[str, Reply]
    failures: Mapping[str, str]
    contributions: Mapping[str, Reply]
    weights: Mapping[str, float]
    sums: Mapping[tuple[str, ...], Opened]
    opened: Opened


class Sums(Protocol):
    """How updates come together."""

    def exchange(self, current: Round, phase: Phase) -> Outcome:
        """Carry out a phase, and combine its updates if it has any.

        Raises:
            QuorumError: too few clients answered.
        """
        ...


def due_statistics(
    aggregation: Aggregation, run_state: RunState, contributions: Mapping[str, Reply]
) -> dict[str, ClientStatistics]:
    """The statistics from which weights are made now: those that came, or those of the round before.

    The newest ones are kept in the state of the run.
    """
    reported = {
        client: reply.content.values["statistics"]
        for client, reply in contributions.items()
        if "statistics" in reply.content.values
    }
    now = {**run_state.statistics, **reported}
    due = reported if aggregation.config.aggregation.statistics == "current" else run_state.statistics
    run_state.statistics = now
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
        reported = reply.content.values.get("condensation") or {}
        rows[client] = {
            "steps": training.get("steps"),
            "normaliser": training.get("normaliser"),
            "statistics": vars(found[client]) if client in found else {},
            "condensation": {name: reported[name] for name in CONDENSATION if name in reported},
            "columns": columns_of(reply, declared),
        }
    return rows
