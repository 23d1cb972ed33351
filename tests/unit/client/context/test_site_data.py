from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fedtag.client.context.site_data import SiteData
from fedtag.client.site.site import Site
from fedtag.common.settings.sections import TextConfig

Open = Callable[..., SiteData]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]) -> Path:
    return write_feature_folder(tmp_path_factory.mktemp("data") / "site")


@pytest.fixture
def open_data(folder: Path, tmp_path: Path) -> Open:
    def build(view: str = "document", inductive: bool = False) -> SiteData:
        site = Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu")
        return SiteData(site, TextConfig.model_validate({"view": view}), inductive)

    return build


def test_inductive_training_does_not_see_edges_of_test_nodes(open_data: Open) -> None:
    data = open_data(inductive=True)
    hidden, ends = data.graph.test_mask, data.training.graph.edge_index
    assert not bool(hidden[ends].any())
    assert ends.shape[1] < data.graph.edge_index.shape[1]
    assert data.adjacency.edge_index.shape[1] > data.training.adjacency.edge_index.shape[1]
    assert data.training.training is data.training
    plain = open_data()
    assert plain.training is plain


@pytest.mark.parametrize("view", ["document", "chunks", "both"])
def test_given_features_are_the_document_and_one_chunk_of_unit_length(
    view: str, folder: Path, open_data: Open
) -> None:
    data = open_data(view)
    features = torch.from_numpy(np.load(folder / "features.npy"))
    unit = features / features.norm(dim=1, keepdim=True)
    expected = {"document": features, "chunks": unit, "both": (features + unit) / 2}[view]
    torch.testing.assert_close(data.graph.x, expected)
    assert data.features_from == "features.npy"


def test_values_are_built_once_and_not_shared_with_changed_data(open_data: Open) -> None:
    data, built = open_data(), []
    other = data.with_features(2 * data.graph.x)
    for one in (data, data, other):
        one.cached("x", lambda: built.append(1))
    assert built == [1, 1]


def test_another_graph_has_the_same_folder_behind_it(open_data: Open) -> None:
    data = open_data(inductive=True)
    graph = data.graph
    more = torch.cat([graph.x, graph.x[:1]])
    larger = data.with_graph(
        type(graph)(
            x=more,
            edge_index=graph.edge_index,
            edge_weight=graph.edge_weight,
            y=torch.cat([graph.y, graph.y.new_full((1,), -1)]),
            **{
                name: torch.cat([getattr(graph, name), torch.zeros(1, dtype=torch.bool)])
                for name in ("train_mask", "val_mask", "test_mask")
            },
            num_classes=graph.num_classes,
        )
    )
    assert larger.graph.num_nodes == larger.adjacency.num_nodes == graph.num_nodes + 1
    assert larger.sizes == data.sizes
    assert larger.text_graph is data.text_graph
    assert larger.bank is data.bank
    assert larger.training.graph.edge_index.shape == data.training.graph.edge_index.shape
    doubled = data.with_features(2 * graph.x)
    assert torch.equal(doubled.training.graph.x, 2 * graph.x)
    assert torch.equal(data.graph.x, graph.x)
