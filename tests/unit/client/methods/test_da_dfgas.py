"""The client of DA-DFGAS: what it trains, uploads, remembers and scores in search and in retraining."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.methods.da_dfgas.method import METHOD
from fedtag.client.methods.da_dfgas.networks import convinces
from fedtag.client.methods.da_dfgas.training import logits_of, validation_halves
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.train.batches import WHOLE
from fedtag.common.config import RunConfig
from fedtag.common.methods.da_dfgas.course import first_supernet
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.discretisation import discretised
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import discrete_network, parameter_count, used_names
from fedtag.common.wire.records import Content, Instruction, Reply, prefixed
from fedtag.server.methods.da_dfgas.method import METHOD as SERVER
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import TRAIN
from fedtag.server.protocol.state import Agreement
from fedtag.server.strategies.weights import parse_statistics
from tests.exchanges import context_of

Open = Callable[..., SiteRun]


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    def build(nodes: int = 60, **changes: Any) -> SiteRun:
        folder = tmp_path / f"site {nodes}"
        if not folder.exists():
            write_feature_folder(folder, nodes)
        flat = {"method": "da_dfgas", "rounds": 4, "clients": 3, "model.hidden": 4, **changes}
        config = RunConfig.from_flat(flat)
        return SiteRun(Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


def initial(site: SiteRun, **logits: torch.Tensor) -> Parameters:
    return {**parameters_of(first_supernet(site.config, 8, 3)), **logits}


def ask(site: SiteRun, number: int, model: Parameters, phase: str = "train", **values: Any) -> Reply:
    content = Content(prefixed("model", model), values)
    return site.respond(Instruction("run", number, number, phase, content))


def test_the_search_moves_weights_and_architecture(open_site: Open) -> None:
    site = open_site()
    update = ask(site, 1, initial(site)).content.section("update")
    assert update.keys() == initial(site).keys()
    assert all(bool(value.any()) for name, value in update.items() if is_architecture(name))
    assert bool(update["first.weight"].any())


def test_without_enough_validation_nodes_the_architecture_stays(open_site: Open) -> None:
    """15 nodes have 3 validation nodes."""
    site = open_site(nodes=15)
    assert site.data.sizes["val_nodes"] == 3
    reply = ask(site, 1, initial(site)).content
    moved = reply.section("update")
    assert not any(bool(value.any()) for name, value in moved.items() if is_architecture(name))
    assert bool(moved["first.weight"].any())
    assert parse_statistics(reply.values["statistics"], 3).accuracy is None
    # Its architecture then is that of the global logits.
    logits = {name: torch.randn_like(v) for name, v in initial(site).items() if is_architecture(name)}
    told = ask(site, 3, initial(site, **logits)).content.values["architecture"]
    assert Architecture.from_json({"cells": told["cells"]}) == discretised(logits, 0.1)


def test_retraining_takes_the_clients_own_architecture_and_what_it_uses(open_site: Open) -> None:
    site = open_site(**{"da_dfgas.architecture-rate": 1.0, "da_dfgas.own": "always"})
    model = initial(site)
    update = ask(site, 2, model).content.section("update")
    own = discretised({name: model[name] + change for name, change in update.items()}, 0.1)
    assert own != discretised(model, 0.1)
    reply = ask(site, 3, model).content
    told = reply.values["architecture"]
    assert Architecture.from_json({"cells": told["cells"]}) == own
    assert reply.section("update").keys() == used_names(own)
    assert told["parameters"] == parameter_count(discrete_network(own, model, 0.5))
    # With one architecture for all it is that of the global logits.
    shared = ask(open_site(**{"da_dfgas.personal": False}), 3, model).content
    assert shared.section("update").keys() == used_names(discretised(model, 0.1))


@pytest.mark.parametrize("personal", [True, False])
def test_both_sides_say_the_same_of_what_a_client_may_lack(open_site: Open, personal: bool) -> None:
    site = open_site(**{"da_dfgas.personal": personal})
    server = ServerContext(site.config)
    begun = SERVER.begin(Agreement(("a", "b", "c"), 8, "features"), server)
    for number, used in ((1, list(initial(site))), (3, "own" if personal else list(initial(site)))):
        state = replace(begun, values={**begun.values, "used": used})
        forms = SERVER.expected(state, TRAIN, server)
        optional = {name.removeprefix("update/"): form.optional for name, form in forms.items()}
        assert optional == {name: METHOD.may_lack(name, context_of(site, number)) for name in optional}
        assert any(optional.values()) == (personal and number == 3)


def test_an_own_architecture_has_to_convince(open_site: Open) -> None:
    """By McNemar's test, node by node, on half B; both outcomes occur among random logits."""
    site, gap = open_site(nodes=600), 0.1
    judged = validation_halves(site.data, context_of(site)).judged.nonzero().flatten().tolist()
    outcomes = []
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        received, after = (
            {
                name: torch.randn(value.shape, generator=generator) if value.ndim else value
                for name, value in initial(site).items()
            }
            for _ in range(2)
        )
        right = []
        for logits in (after, received):
            model = discrete_network(discretised(logits, gap), after, 0.0)
            found = logits_of(model, site.data, WHOLE).argmax(1)
            right.append([bool(found[node] == site.data.graph.y[node]) for node in judged])
        won = sum(own and not shared for own, shared in zip(*right, strict=True))
        lost = sum(shared and not own for own, shared in zip(*right, strict=True))
        expected = won > lost and (won - lost) ** 2 / (won + lost) > 1.645**2
        assert convinces(after, received, WHOLE, site.data, context_of(site)) is expected
        outcomes.append(expected)
    assert {True, False} == set(outcomes)
    assert not convinces(after, after, WHOLE, site.data, context_of(site))


def test_what_does_not_convince_is_forgotten(open_site: Open) -> None:
    site = open_site(**{"da_dfgas.architecture-rate": 1.0})
    model = initial(site)
    update = ask(site, 2, model).content.section("update")
    after = {name: model[name] + change for name, change in update.items()}
    kept = after if convinces(after, model, WHOLE, site.data, context_of(site)) else model
    told = ask(site, 3, model).content.values["architecture"]
    assert Architecture.from_json({"cells": told["cells"]}) == discretised(kept, 0.1)


def test_under_masks_an_architecture_stays_in_the_sites_state(open_site: Open) -> None:
    secure = {"privacy.secure-aggregation": True, "aggregation.statistics": "previous"}
    site = open_site(**{"da_dfgas.architecture-rate": 1.0, "da_dfgas.own": "always", **secure})
    model = initial(site)

    def asked(number: int, phase: str, received: Parameters) -> Content:
        """Before it is masked, which takes other clients."""
        content = Content(prefixed("model", received), {"evaluate": True})
        return METHOD.respond(site.data, context_of(site, number, phase, content))

    found = asked(2, "train", model).section("update")
    own = discretised({name: model[name] + change for name, change in found.items()}, 0.1)
    logits = {name: value for name, value in model.items() if is_architecture(name)}
    use = asked(3, "use", logits)
    assert use.section("update").keys() == used_names(own)
    assert not any(bool(value.any()) for value in use.tensors.values())
    assert not use.section("scores")
    assert use.values.keys() == {"sizes"}
    trained = asked(4, "train", model)
    assert trained.section("update").keys() == used_names(own)
    assert "architecture" not in trained.values
    kept = site.site.state / "run"
    cells = json.loads((kept / "architecture.json").read_text())
    assert Architecture.from_json({"cells": cells.pop("cells")}) == own
    assert cells == {"parameters": parameter_count(discrete_network(own, model, 0.5))}
    assert (kept / "architecture.svg").read_text().startswith("<svg")


def test_each_model_is_scored_under_its_name(open_site: Open) -> None:
    """Of the received model the round before says what it is; half B judges."""
    site = open_site(**{"da_dfgas.scoring": "auto"})
    model = initial(site)

    def paths(number: int, phase: str = "train") -> set[str]:
        content = ask(site, number, model, phase, evaluate=True, evaluate_local=True).content
        for name, value in content.section("scores").items():
            if name.endswith("val/confusion"):
                assert int(value.sum()) == content.values["sizes"]["val_nodes"]
        return {name.partition("/")[0] for name in content.section("scores")}

    assert paths(2) == {"supernet", "local"}
    assert paths(3) == {"supernet", "local"}
    assert paths(4) == {"own", "shared", "local"}
    assert paths(5, "close") == {"own", "shared"}
    assert int(validation_halves(site.data, context_of(site)).judged.sum()) < site.data.sizes["val_nodes"]


def test_scores_are_those_of_the_network_by_hand(open_site: Open) -> None:
    site = open_site()
    model = initial(site)
    ask(site, 2, model)
    reply = ask(site, 5, model, "close", evaluate=True).content
    told = ask(site, 3, model).content.values["architecture"]
    network = discrete_network(Architecture.from_json({"cells": told["cells"]}), model, 0.5)
    graph = site.data.graph
    right = (network(graph.x, graph.adjacency()).argmax(1) == graph.y)[graph.test_mask].sum()
    assert int(reply.section("scores")["own/test/confusion"].trace()) == int(right)


def test_who_lags_behind_works_twice_as_long(open_site: Open) -> None:
    site = open_site()
    model = initial(site)
    assert ask(site, 1, model, longer=["another"]).content.values["training"]["steps"] == 10
    assert ask(site, 2, model, longer=[site.site.name]).content.values["training"]["steps"] == 20
    told = ask(open_site(**{"train.extra-epochs": 3}), 3, model, longer=[site.site.name]).content.values[
        "training"
    ]
    assert told["steps"] == 13


def test_who_keeps_its_weights_goes_on_from_them(open_site: Open) -> None:
    """The update still is the difference to what was received."""
    keep = {"da_dfgas.keep-local": True, "train.learning-rate": 1e-12, "train.weight-decay": 0.0}
    site = open_site(**keep)
    model = initial(site)
    ask(site, 1, {name: value + 1 for name, value in model.items()})
    update = ask(site, 2, model, longer=[site.site.name]).content.section("update")
    for name, change in update.items():
        if not is_architecture(name):
            torch.testing.assert_close(change, torch.ones_like(change), atol=1e-5, rtol=0)
    assert not bool(ask(site, 3, model).content.section("update")["first.weight"].abs().gt(1e-5).any())


def test_the_same_seed_finds_the_same_architecture(open_site: Open, tmp_path: Path) -> None:
    found = []
    for place in ("one", "other"):
        site = open_site(**{"da_dfgas.architecture-rate": 1.0})
        site = SiteRun(Site("site", site.site.folder, tmp_path / place, tmp_path, "cpu"), site.config)
        model = initial(site)
        ask(site, 2, model)
        found.append(ask(site, 3, model).content.values["architecture"])
    assert found[0] == found[1]
