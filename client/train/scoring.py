"""Scoring on the client's own labels; only counts leave it."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from fedtag.common.graph import Graph
from fedtag.common.numerics.scores import Tally, tally


def subset_tallies(logits: Float[Tensor, "nodes classes"], graph: Graph) -> dict[str, Tally]:
    """Counts over the validation and the test nodes."""
    return {
        "val": tally(logits, graph.y, graph.val_mask),
        "test": tally(logits, graph.y, graph.test_mask),
    }


def score_tensors(path: str, tallies: dict[str, Tally]) -> dict[str, Tensor]:
    """Tallies of one way of scoring under the names by which they travel: path/subset/field."""
    return {
        f"{path}/{subset}/{field}": value
        for subset, counts in tallies.items()
        for field, value in vars(counts).items()
        if value is not None
    }
