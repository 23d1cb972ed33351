from __future__ import annotations

import torch

from fedtag.client.train.scoring import score_tensors, subset_tallies
from fedtag.common.graph import Graph
from fedtag.common.numerics.ranking import RANK_BINS
from fedtag.common.numerics.scores import tally


def test_only_validation_and_test_nodes_are_counted_each_on_its_own() -> None:
    def mask(*nodes: int) -> torch.Tensor:
        return torch.isin(torch.arange(6), torch.tensor(nodes))

    y = torch.tensor([0, 1, 0, 1, 1, -1])
    graph = Graph(
        torch.zeros(6, 1),
        torch.zeros(2, 0, dtype=torch.int64),
        torch.zeros(0),
        y,
        mask(0),
        mask(1, 2),
        mask(3, 4),
        2,
    )
    logits = torch.tensor([[0.0, 9], [0, 9], [0, 9], [9, 0], [0, 9], [0, 9]])
    tallies = subset_tallies(logits, graph)
    assert tallies["val"].confusion.tolist() == [[0, 1], [0, 1]]
    assert tallies["test"].confusion.tolist() == [[0, 0], [1, 1]]
    tensors = score_tensors("graph", tallies)
    assert set(tensors) == {
        f"graph/{subset}/{field}"
        for subset in ("val", "test")
        for field in ("confusion", "bin_nodes", "bin_confidence", "bin_correct")
    }
    # Nothing that leaves the client is as long as its nodes.
    assert all(value.numel() in (4, 15) for value in tensors.values())
    ranked = score_tensors("graph", {"val": tally(logits, y, graph.val_mask, ranked=True)})
    assert ranked.keys() - tensors.keys() == {"graph/val/ranks"}
    assert ranked["graph/val/ranks"].numel() == 2 * 2 * RANK_BINS
