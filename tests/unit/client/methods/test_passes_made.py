"""How often methods compute a graph, and by whose word in parts: passes over it are counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import ClientMethod
from fedtag.client.methods.da_dfgas.method import DaDfgas
from fedtag.client.methods.dance.method import Dance
from fedtag.client.methods.fedgc.method import FedGC
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.client.run.method import method_of
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.train.batches import Batching
from fedtag.common.config import RunConfig
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.parameters import parameters_of
from fedtag.common.models.supernet.network import DiscreteNetwork
from fedtag.common.models.supernet.supernet import Supernet
from fedtag.common.wire.records import Content, prefixed
from tests.exchanges import context_of

Open = Callable[..., SiteRun]
NODES = 45
CLASSIFIERS = (Backbone, Supernet, DiscreteNetwork)


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    folder = write_feature_folder(tmp_path / "site", NODES)

    def build(**changes: Any) -> SiteRun:
        config = RunConfig.from_flat({"model.hidden": 6, "ratio": 0.2, **changes})
        return SiteRun(Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


@pytest.fixture
def passes_made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passes over all nodes: at once, or stage after stage in parts."""
    made: list[str] = []

    def noted(kind: Any) -> None:
        at_once, stages = kind.hidden_and_logits, kind.stages

        def passed(model: Any, x: Tensor, *rest: Any) -> Any:
            if x.shape[0] == NODES:
                made.append("at once")
            return at_once(model, x, *rest)

        def staged(model: Any) -> Any:
            made.append("in parts")
            return stages(model)

        monkeypatch.setattr(kind, "hidden_and_logits", passed)
        monkeypatch.setattr(kind, "stages", staged)

    for kind in CLASSIFIERS:
        noted(kind)
    return made


class OwnParts:
    """Takes its graph in parts of its own size, whatever the settings say."""

    def batching(self, data: SiteData, context: RunContext[Any]) -> Batching:
        return Batching(7)


class OwnDance(OwnParts, Dance):
    pass


class OwnDaDfgas(OwnParts, DaDfgas):
    pass


class OwnFedGC(OwnParts, FedGC):
    pass


GC = {"fedgc.learn-from": "both", "fedgc.self-training-rounds": 1, "fedgc.fine-tune-steps": 1}


@pytest.mark.parametrize(
    ("method", "own", "settings", "number"),
    [
        ("dance", OwnDance(), {}, 1),
        ("da_dfgas", OwnDaDfgas(), {}, 1),
        ("da_dfgas", OwnDaDfgas(), {}, 9),
        ("fedgc", OwnFedGC(), GC, 1),
        ("fedgc", OwnFedGC(), GC, 2),
    ],
)
def test_a_variant_is_asked_how_it_takes_its_graph(
    open_site: Open,
    passes_made: list[str],
    method: str,
    own: ClientMethod[Any],
    settings: dict[str, Any],
    number: int,
) -> None:
    """Where the method that it varies takes it whole: when models are scored, trained, or fitted."""
    site = open_site(method=method, rounds=10, **settings)
    phase = "condense" if method == "fedgc" and number > 1 else "train"
    initial = parameters_of(own.model(site.data, context_of(site, number)))
    values: dict[str, Any] = {"evaluate": True}
    tensors = prefixed("model", initial)
    if phase == "condense":
        tensors |= prefixed("teacher", initial)
        values |= {"teacher": "0" * 16, "theta": 1}
    context = context_of(site, number, phase, Content(tensors, values))
    own.respond(site.data, context)
    assert set(passes_made) == {"in parts"}


@pytest.mark.parametrize("size", [0, 7])
@pytest.mark.parametrize(
    ("method", "path", "evidence", "passes"),
    [
        ("fedavg", "graph", False, 1),
        ("dance", "graph", False, 1),
        # Texts are chosen by one, and what they say with the graph is another.
        ("dance", "evidence", False, 2),
        # And what the prediction would be without the texts, without all else, and without both.
        ("dance", "evidence", True, 5),
        ("dance", "graph", True, 5),
        ("da_dfgas", "supernet", False, 1),
        ("da_dfgas", "shared", False, 1),
        ("fedgc", "condensed", False, 1),
    ],
)
def test_a_prediction_computes_nothing_twice(
    open_site: Open,
    passes_made: list[str],
    method: str,
    path: str,
    evidence: bool,
    passes: int,
    size: int,
) -> None:
    site = open_site(method=method, **{"train.batch-size": size})
    side: Any = method_of(site.config)
    model = side.model(site.data, context_of(site))
    released = ReleasedModel(parameters_of(model), 3, path)
    said = side.predict(released, site.data, context_of(site), evidence)
    assert passes_made == ["in parts" if size else "at once"] * passes
    if passes == 1 and method != "dance" and path != "shared":
        for one, other in zip(
            (said.hidden, said.logits),
            model.hidden_and_logits(site.data.graph.x, site.data.adjacency),
            strict=True,
        ):
            assert torch.allclose(one, other, atol=1e-5) if size else torch.equal(one, other)


class Doubled(ClientMethod[None]):
    """Says other logits than its model."""

    def logits(self, model: Any, data: SiteData, context: RunContext[None]) -> dict[str, Tensor]:
        return {path: 2 * value for path, value in super().logits(model, data, context).items()}


def test_a_variant_predicts_by_the_logits_that_it_says(open_site: Open) -> None:
    site, method = open_site(method="fedavg"), Doubled()
    model = method.model(site.data, context_of(site))
    said = method.predict(ReleasedModel(parameters_of(model), 1, "graph"), site.data, context_of(site))
    hidden, logits = model.hidden_and_logits(site.data.graph.x, site.data.adjacency)
    assert torch.equal(said.logits, 2 * logits)
    assert said.hidden is not None
    assert torch.equal(said.hidden, hidden)
