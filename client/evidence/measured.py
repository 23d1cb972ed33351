"""The faithfulness of one site's evidence, kept in a file that only the institution reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fedtag.client.evidence.packs import NodeId
from fedtag.client.site.whole_file import write_whole
from fedtag.common.errors import RunError

FILE = "faithfulness.json"
SCHEMA = 1

NOT_EFFECT = (
    "A weight says where the model looked, not how much it mattered: what removing a span does is measured "
    "by `fedtag audit --faithfulness`"
)
NOT_LOWER = (
    "Here, removing it did not lower the probability: other text says the same, or other inputs carry the "
    "prediction"
)
OTHER_INPUTS = (
    "Most of this prediction came from other inputs (the graph and features propagated from neighbours): the "
    "quoted text alone would not explain it"
)
"""What a reader of one node's evidence must know, as sentences without their full stop."""


@dataclass(frozen=True, slots=True)
class NodeFaithfulness:
    """The probability of one node's first prediction under some conditions, each in [0, 1].

    Args:
        full: from the full text.
        without_strongest: without the span of the largest weight.
        without_evidence: without all selected spans.
        without_random: without as many random spans of the candidates.
        evidence_only: with no other text in the graph.
    """

    full: float
    without_strongest: float
    without_evidence: float
    without_random: float
    evidence_only: float

    @property
    def fell(self) -> bool:
        """Whether the probability is lower without the strongest span, at the precision that a reader sees."""
        return _points(self.without_strongest) < _points(self.full)

    @property
    def change(self) -> str:
        """What became of the probability without the strongest span, to follow `the probability`."""
        before, after = _points(self.full), _points(self.without_strongest)
        if before == after:
            return f"did not change ({shown(self.full)})"
        way = "fell" if after < before else "rose"
        return (
            f"{way} by {abs(before - after):.1f} points, from {shown(self.full)} to "
            f"{shown(self.without_strongest)}"
        )


@dataclass(frozen=True)
class MeasuredSite:
    """What was measured at a site.

    Args:
        model: fingerprint of the model.
        summary: numbers over nodes, as in a run's faithfulness.json.
        nodes: of each measured node.
    """

    model: str
    summary: Mapping[str, Any]
    nodes: Mapping[NodeId, NodeFaithfulness]


def write_measured(path: Path, measured: MeasuredSite) -> None:
    """Write the file; the same numbers give the same bytes."""
    nodes = [{"node": node, **_record(one)} for node, one in measured.nodes.items()]
    record = {**measured.summary, "nodes": nodes}
    write_whole(path, (json.dumps(record, ensure_ascii=True, allow_nan=False, indent=1) + "\n").encode())


def read_measured(path: Path) -> MeasuredSite | None:
    """Read the file; None if there is none.

    Raises:
        RunError: it is damaged or of another schema.
    """
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']!r}")
        json.dumps(record, allow_nan=False)  # what is not finite is no measurement, and no page can show it
        entries: Sequence[dict[str, Any]] = record.pop("nodes")
        nodes = {entry.pop("node"): NodeFaithfulness(**entry) for entry in entries}
        odd = [
            value
            for one in nodes.values()
            for value in _record(one).values()
            if type(value) not in (int, float)
        ]
        if odd:
            raise ValueError(f"{odd[0]!r} is no probability")
        return MeasuredSite(record["model"], record, nodes)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(
            f"{path} holds no measurement of schema {SCHEMA} ({error}): remove it, or measure again with "
            "`fedtag audit --faithfulness`"
        ) from error


def shown(value: float) -> str:
    """A probability or share as a reader wants it, in percent to one decimal."""
    return f"{_points(value):.1f}%"


def _points(value: float) -> float:
    return round(100 * value, 1)


_NAMES = tuple(field.name for field in fields(NodeFaithfulness))


def _record(one: NodeFaithfulness) -> dict[str, float]:
    return {name: getattr(one, name) for name in _NAMES}
