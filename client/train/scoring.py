"""Scoring on the client's own labels; only counts leave it."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.common.graph import Graph
from fedtag.common.numerics.scores import LOCAL, Tally, tally


def subset_tallies(logits: Float[Tensor, "nodes classes"], graph: Graph) -> dict[str, Tally]:
    """Counts over the validation and the test nodes."""
    return {
        "val": tally(logits, graph.y, graph.val_mask),
        "test": tally(logits, graph.y, graph.test_mask),
    }


def scored_rows(
    judges: Bool[Tensor, " nodes"], test: Bool[Tensor, " nodes"]
) -> dict[str, Int[Tensor, " rows"]]:
    """The nodes of each subset that is scored, which a device then need not be asked for again."""
    return {name: mask.nonzero().squeeze(1) for name, mask in (("val", judges), ("test", test))}


def counted(
    logits: Mapping[str, Tensor], y: Int[Tensor, " nodes"], rows: Mapping[str, Int[Tensor, " rows"]]
) -> dict[str, Tensor]:
    """`score_tensors` of what is said of every node by way of scoring, over the rows of each subset."""
    found: dict[str, Tensor] = {}
    for path, said in logits.items():
        tallies = {name: tally(said, y, some, path != LOCAL) for name, some in rows.items()}
        found |= score_tensors(path, tallies)
    return found


def score_tensors(path: str, tallies: dict[str, Tally]) -> dict[str, Tensor]:
    """Tallies of one way of scoring under the names by which they travel: path/subset/field."""
    return {
        f"{path}/{subset}/{field}": value
        for subset, counts in tallies.items()
        for field, value in vars(counts).items()
        if value is not None
    }
