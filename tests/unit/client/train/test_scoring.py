from __future__ import annotations

import torch

from fedtag.client.train.scoring import counted, score_tensors, scored_rows, subset_tallies
from fedtag.common.graph import Graph
from fedtag.common.numerics.ranking import RANK_BINS
from fedtag.common.numerics.scores import LOCAL, count_forms, tally


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


def test_each_way_of_scoring_has_the_fields_that_the_server_expects() -> None:
    """Ranks of a model that local training has just led to are not counted."""
    logits, y = torch.tensor([[0.0, 9], [9, 0], [0, 9]]), torch.tensor([1, 1, 0])
    rows = scored_rows(torch.tensor([True, False, False]), torch.tensor([False, True, True]))
    found = counted({"graph": logits, LOCAL: logits}, y, rows)
    for path in ("graph", LOCAL):
        for subset in ("val", "test"):
            own = {
                name.rpartition("/")[2]: value
                for name, value in found.items()
                if name.startswith(f"{path}/{subset}/")
            }
            forms = {field: (tuple(value.shape), value.dtype) for field, value in own.items()}
            assert forms == count_forms(path, 2)
    assert found["graph/val/confusion"].tolist() == [[0, 0], [0, 1]]
    assert found["graph/test/confusion"].tolist() == [[0, 1], [1, 0]]
