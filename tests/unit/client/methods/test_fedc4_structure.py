from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch

from fedtag.client.methods.fedc4.structure import write_structure
from fedtag.common.graph import Graph, normalised_adjacency
from fedtag.common.methods.fedc4.names import STRUCTURE_FILE
from fedtag.common.synthetic.condensed import Condensed


def path_graph(y: list[int]) -> Graph:
    forward = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    train = torch.tensor([True, True, True, False, False])
    return Graph(
        torch.zeros(5, 2), torch.cat([forward, forward.flip(0)], 1), torch.ones(8), torch.tensor(y), train,
        torch.tensor([False, False, False, True, False]), torch.tensor([False, False, False, False, True]), 2,
    )  # fmt: skip


def written(folder: Path, graph: Graph) -> dict[str, dict[str, float | None]]:
    core = Condensed.without_links(torch.zeros(2, 2), torch.tensor([0, 1]), copies=False)
    rebuilt = normalised_adjacency(torch.tensor([[0, 1], [1, 0]]), 2)
    write_structure(folder, graph, core, rebuilt, core.y)
    found: dict[str, dict[str, float | None]] = json.loads((folder / STRUCTURE_FILE).read_text())
    return found


def test_the_three_graphs_stand_side_by_side(tmp_path: Path) -> None:
    found = written(tmp_path / "site", path_graph([0, 0, 1, 1, 1]))
    assert found["original"] == {"nodes": 5, "density": 0.4, "homophily": 0.5, "degree_divergence": 0.0}
    assert found["condensed"] == {"nodes": 2, "density": 0.0, "homophily": None, "degree_divergence": None}
    assert (found["rebuilt"]["density"], found["rebuilt"]["homophily"]) == (1.0, 0.0)


def test_labels_of_validation_and_test_are_not_read(tmp_path: Path) -> None:
    graph = path_graph([0, 0, 1, 1, 1])
    other = replace(graph, y=torch.tensor([0, 0, 1, 0, 0]))
    assert written(tmp_path / "one", graph) == written(tmp_path / "other", other)
