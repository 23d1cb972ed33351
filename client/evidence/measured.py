"""The faithfulness of one site's evidence, kept in a file that only the institution reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from client.evidence.packs import NodeId, write_whole
from common.errors import RunError

FILE = "faithfulness.json"
SCHEMA = 1


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
        entries: Sequence[dict[str, Any]] = record.pop("nodes")
        nodes = {entry.pop("node"): NodeFaithfulness(**entry) for entry in entries}
        return MeasuredSite(record["model"], record, nodes)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{path} holds no measurement of schema {SCHEMA} ({error}): remove it, or measure again with "
            f"--faithfulness"
        ) from error


_NAMES = tuple(field.name for field in fields(NodeFaithfulness))


def _record(one: NodeFaithfulness) -> dict[str, float]:
    return {name: getattr(one, name) for name in _NAMES}
