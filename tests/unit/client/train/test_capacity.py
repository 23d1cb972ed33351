from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from fedtag.client.methods.base import ClientMethod
from fedtag.client.methods.fedavg import METHOD
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.client.run.opened_site import opened_site
from fedtag.client.run.refusal import reason
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.train.batches import Batching
from fedtag.client.train.capacity import MARGIN, batch_bytes, largest_batch, memory_explained
from fedtag.client.train.footprint import Footprint
from fedtag.common.config import RunConfig
from fedtag.common.errors import CapacityError
from fedtag.common.models.parameters import parameters_of
from fedtag.common.wire.records import Content, Instruction
from fedtag.runs.listing import register
from tests.exchanges import context_of
from tests.objects import method_spec

Open = Callable[..., SiteRun]
CPU = torch.device("cpu")
GIB = 2**30


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    folder = write_feature_folder(tmp_path / "site", 400)

    def build(**changes: Any) -> SiteRun:
        flat = {"method": "fedavg", "model.hidden": 64, "train.batch-size": "auto", **changes}
        config = RunConfig.from_flat(flat)
        return SiteRun(Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


def free(monkeypatch: pytest.MonkeyPatch, count: float) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=int(count)))


def batching(site: SiteRun, number: int = 1) -> Batching:
    return METHOD.batching(site.data, context_of(site, number))


def test_the_whole_graph_is_taken_where_it_fits(open_site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 64 * GIB)
    assert batching(open_site()) == Batching(0, 10)


@pytest.mark.parametrize("room", [2, 4, 8])
def test_the_largest_size_that_fits_is_taken(
    open_site: Open, monkeypatch: pytest.MonkeyPatch, room: int, caplog: pytest.LogCaptureFixture
) -> None:
    site = open_site(**{"train.fan-out": 2})
    graph, one = site.data.graph, METHOD.model(site.data, context_of(site))
    half = (
        MARGIN * Footprint.of(one, graph.x.shape[1]).bytes(graph.num_nodes, graph.edge_index.shape[1]) / room
    )
    needed = batch_bytes(one, graph, 2, CPU)
    free(monkeypatch, 2 * half)
    with caplog.at_level(logging.INFO, "fedtag"):
        size = largest_batch(one, site.data, 2)

    assert size >= 16
    assert MARGIN * needed(size) <= half or size == 16
    assert MARGIN * needed(2 * size) > half
    assert f"train.batch-size = auto: {size} nodes" in caplog.text


def test_what_was_chosen_holds_for_the_run(open_site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in another process, on whatever memory is free by then; another run chooses anew."""
    free(monkeypatch, 1)
    assert batching(open_site()).size == 16
    free(monkeypatch, 64 * GIB)
    assert batching(open_site(), 2).size == 16
    other = open_site()
    assert METHOD.batching(other.data, context_of(other, run="other")).size == 0


def test_a_prediction_chooses_by_itself(open_site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it chooses, it says the same; nothing of it is kept."""
    site = open_site()
    released = ReleasedModel(parameters_of(METHOD.model(site.data, context_of(site))), 1, "graph")
    said = []
    for room in (1.0, 64 * GIB):
        free(monkeypatch, room)
        opened = opened_site(site.site, site.config, on_host=True)
        said.append(METHOD.predict(released, opened.data, opened.context))
        assert METHOD.batching(opened.data, opened.context).size == (16 if room == 1.0 else 0)
    torch.testing.assert_close(said[0].logits, said[1].logits)
    torch.testing.assert_close(said[0].hidden, said[1].hidden)


def test_who_takes_its_graph_in_parts_keeps_it_on_the_host(open_site: Open) -> None:
    """All that computes does so elsewhere: on the device without memory, which fails as soon as it is used."""
    for size, place in ((0, "meta"), (16, "cpu")):
        site = open_site(**{"train.batch-size": size})
        object.__setattr__(site.site, "device", "meta")
        assert site.data.graph.x.device.type == place
        assert site.data.on_device.graph.x.device.type == "meta"


@pytest.mark.parametrize(
    ("size", "remedy"),
    [(0, "set it to auto, or to a number"), (4096, "for example to 1024"), ("auto", "such as 256")],
)
def test_a_device_that_runs_out_says_what_to_set(size: object, remedy: str) -> None:
    config = RunConfig.from_flat({"method": "fedavg", "train.batch-size": size})
    with (
        pytest.raises(
            CapacityError, match=rf"memory of cpu ran out with train\.batch-size = {size}, .*{remedy}"
        ),
        memory_explained(config, CPU),
    ):
        torch.empty(2**50)
    with pytest.raises(CapacityError), memory_explained(config, CPU):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    with pytest.raises(RuntimeError, match="something else"), memory_explained(config, CPU):
        raise RuntimeError("something else")


class Greedy(ClientMethod[None]):
    """Its step wants more memory than there is."""

    def loss(self, model: Any, examples: Any, generator: torch.Generator) -> Callable[[], torch.Tensor]:
        return lambda: torch.empty(2**50)


@pytest.mark.usefixtures("handed_over")
def test_the_coordinator_is_told_too(open_site: Open) -> None:
    name = register(method_spec("greedy", Greedy()))
    site = open_site(method=name, **{"train.batch-size": 64})
    with pytest.raises(CapacityError) as caught:
        site.respond(Instruction("run", 1, 1, "train", Content()))
    assert "train.batch-size = 64" in reason(caught.value)
