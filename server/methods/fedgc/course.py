"""How the condensation went: what the server keeps of each round for people, beyond the graph itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedtag.common.methods.fedgc.names import LABELLED, NODES, TRAINED

if TYPE_CHECKING:
    from fedtag.server.methods.fedgc.condensation import Sums

FILE = "condensation.json"
DISTANCES = "distances"
TOTALS = "totals"


def noted(
    values: Mapping[str, Any], round_number: int, sums: Sums, distances: Sequence[float]
) -> dict[str, Any]:
    """What the state remembers of a round of condensation.

    Args:
        values: of the state before.
        round_number: of the run.
        sums: of the round; its totals over the clients that took part replace those of the round before.
        distances: between gradients before each step, of the round's own matching model; at least one.
    """
    record = {"round": round_number, "first": distances[0], "last": distances[-1]}
    totals = {NODES: sums.nodes, TRAINED: sums.trained.tolist(), LABELLED: sums.labelled.tolist()}
    return {DISTANCES: [*values.get(DISTANCES, []), record], TOTALS: totals}


def condensation_document(values: Mapping[str, Any]) -> dict[str, str]:
    """The same as a file of the run directory; none before a round of condensation."""
    if DISTANCES not in values:
        return {}
    record = {DISTANCES: values[DISTANCES], TOTALS: values[TOTALS]}
    return {FILE: json.dumps(record, indent=1, allow_nan=False) + "\n"}
