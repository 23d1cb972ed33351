"""FedAvg with a condenser: condensed once a run, whatever processes come and go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.condense.condenser import condense
from fedtag.client.condense.synthetic import keeping
from fedtag.client.condense.synthetic.leak import leak
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.common.config import RunConfig
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.wire.records import Content, Instruction, Reply, prefixed

Open = Callable[..., SiteRun]
QUICK = {"condenser.outer-loops": 2, "condenser.inner-loops": 3, "condenser.hidden": 4}


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    folder = write_feature_folder(tmp_path / "site")

    def build(**changes: Any) -> SiteRun:
        flat = {"method": "fedavg", "ratio": 0.15, "model.hidden": 6, "condenser.name": "gcond", **QUICK}
        config = RunConfig.from_flat({**flat, **changes})
        return SiteRun(Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


def train(site: SiteRun, step: int = 1, run: str = "run") -> Reply:
    model = parameters_of(initial_backbone(site.config, 8, 3))
    return site.respond(Instruction(run, step, step, "train", Content(prefixed("model", model))))


def test_a_graph_is_condensed_once_a_run(open_site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noted(name: str, *given: Any, **more: Any) -> Any:
        calls.append(name)
        return condense(name, *given, **more)

    monkeypatch.setattr(keeping, "condense", noted)
    site = open_site()
    first, again = train(site), train(site, 2)
    # Another process has nothing but the disk.
    other = train(open_site(), 2)
    assert calls == ["gcond"]
    assert fingerprint(again.content.section("update")) == fingerprint(other.content.section("update"))
    assert "condense" in first.content.values["seconds"]
    assert "condense" not in other.content.values["seconds"]
    train(open_site(), run="another")
    assert calls == ["gcond", "gcond"]


def test_the_server_is_told_of_size_and_leaks_only(open_site: Open) -> None:
    site = open_site()
    reply = train(site)
    told = reply.content.values["condensation"]
    kept = StateStore(site.site.state, "run").find("condensed")
    assert kept is not None
    assert told == {"core": 9, "nodes": 60, **vars(leak(kept.tensors["x"], site.data.graph.x))}
    assert told["copied"] == 0
    model = parameters_of(initial_backbone(site.config, 8, 3))
    assert reply.content.tensors.keys() == {f"update/{name}" for name in model}


def test_copied_nodes_are_counted(open_site: Open) -> None:
    assert train(open_site(**{"condenser.name": "herding"})).content.values["condensation"]["copied"] == 1


def test_no_condenser_tells_of_no_condensation(open_site: Open) -> None:
    assert "condensation" not in train(open_site(**{"condenser.name": "none"})).content.values


def test_inductive_condensation_reads_no_edge_of_a_test_node(open_site: Open) -> None:
    found = []
    for changed in (False, True):
        site = open_site(**{"train.inductive": True, "condenser.name": "gcond-x"})
        graph = site.data.graph
        if changed:
            site.data.graph = graph.without_edges_of(graph.test_mask)
            assert site.data.graph.edge_index.shape[1] < graph.edge_index.shape[1]
        train(site, run=f"run-{changed}")
        kept = StateStore(site.site.state, f"run-{changed}").find("condensed")
        assert kept is not None
        found.append(kept.tensors["x"])
    assert torch.equal(*found)
