from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.condense.core.of_round import due
from fedtag.client.evidence.store import available_rounds, read_packs, round_file
from fedtag.client.methods.dance.condensation import forward, views_of_all
from fedtag.client.methods.dance.local_graph import local_graph
from fedtag.client.methods.dance.packs import evidence_packs
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.client.train.batches import Batching
from fedtag.common.config import RunConfig
from fedtag.common.methods.dance.model import initial_dance_model
from fedtag.common.models.parameters import Parameters, fingerprint, load_parameters, parameters_of
from fedtag.common.wire.records import Content, Instruction, Reply, prefixed
from tests.exchanges import context_of

Open = Callable[..., SiteRun]


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    folder = write_feature_folder(tmp_path / "site", 45)

    def build(**changes: Any) -> SiteRun:
        flat = {"method": "dance", "ratio": 0.2, "model.hidden": 6, "dance.propagated": 1}
        dotted = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
        config = RunConfig.from_flat({**flat, **dotted})
        return SiteRun(Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


def model(site: SiteRun, shift: float = 0.0) -> Parameters:
    """The initial model, with noise that grows with `shift`."""
    generator = torch.Generator().manual_seed(9)
    initial = parameters_of(initial_dance_model(site.config, 8, 3))
    return {name: v + shift * torch.randn(v.shape, generator=generator) for name, v in initial.items()}


def ask(site: SiteRun, step: int, phase: str = "train", shift: float = 0.0, **more: Any) -> Reply:
    tensors = {**prefixed("model", model(site, shift)), **more.pop("tensors", {})}
    content = Content(tensors, {"evaluate": True, **more})
    return site.respond(Instruction("run", step, step, phase, content))


def core(site: SiteRun, step: int) -> list[int]:
    found = StateStore(site.site.state, "run", "core").load_before(step + 1)
    assert found is not None
    return found.tensors["nodes"].tolist()


@pytest.mark.parametrize(
    ("every", "rounds"), [(0, [1]), (1, [1, 2, 3, 4, 5, 6, 7]), (2, [1, 3, 5, 7]), (3, [1, 4, 7])]
)
def test_refreshes_are_due_from_the_first_round_on(every: int, rounds: list[int]) -> None:
    assert [number for number in range(1, 8) if due(number, every)] == rounds


def test_the_core_stays_until_its_refresh(open_site: Open) -> None:
    site = open_site(dance__core_refresh=2)
    cores = []
    for step in (1, 2, 3, 4):
        ask(site, step, shift=step / 10)
        cores.append(core(site, step))
    assert cores[0] == cores[1] != cores[2] == cores[3]


def test_the_evidence_is_chosen_by_the_model_of_its_refresh(open_site: Open) -> None:
    site = open_site(dance__text_refresh=2)
    chosen = []
    for step in (1, 2, 3):
        ask(site, step, shift=step / 10)
        found = StateStore(site.site.state, "run").load_before(step + 1)
        assert found is not None
        chosen.append(fingerprint(Content(found.tensors).section("selector")))
    expected = [fingerprint(model(site, shift)) for shift in (0.1, 0.1, 0.3)]
    assert chosen == expected


def test_nothing_is_saved_where_every_round_refreshes(open_site: Open) -> None:
    site = open_site()
    ask(site, 1)
    kept = {path.name for path in site.site.state.rglob("*") if path.is_file()}
    # What the site's data were when the run came, and by what their features are made.
    assert kept == {"data.safetensors", "features.safetensors"}


def test_a_client_that_joins_between_refreshes_chooses_a_core(open_site: Open) -> None:
    site = open_site(dance__core_refresh=5, dance__text_refresh=5)
    assert ask(site, 3).content.values["condensation"]["core"] > 0
    assert core(site, 3)


def test_the_running_average_is_scored_and_the_model_is_trained(open_site: Open) -> None:
    site = open_site()
    plain, averaged = ask(site, 1), ask(site, 1, tensors=prefixed("average", model(site, 1.0)))
    other = ask(site, 1, shift=1.0)

    def part(reply: Reply, kind: str) -> str:
        return fingerprint(reply.content.section(kind))

    assert part(averaged, "update") == part(plain, "update") != part(other, "update")
    assert part(averaged, "scores") == part(other, "scores") != part(plain, "scores")


def test_only_training_sends_an_update(open_site: Open) -> None:
    site = open_site()
    assert not ask(site, 1, "score").content.section("update")
    trained = ask(site, 1)
    assert trained.content.section("update").keys() == model(site).keys()
    assert not ask(site, 1, evaluate=False).content.section("scores")
    told = trained.content.values
    assert told["condensation"]["core"] == 9
    assert told["condensation"]["nodes"] == 45
    assert told["training"]["steps"] == 3
    assert "initial" not in told


def test_evidence_is_kept_for_the_last_and_the_best_model(open_site: Open) -> None:
    site = open_site()
    best = model(site, 0.5)
    ask(site, 1)
    reply = ask(site, 6, "close", tensors=prefixed("best", best), last_round=5, best_round=3)
    assert not reply.content.section("update")
    assert {3, 5} <= set(available_rounds(site.site.evidence))
    packs = read_packs(round_file(site.site.evidence, 3))
    assert len({pack.node for pack in packs}) == len(packs) == 45
    assert packs.models == {fingerprint(best)}
    assert read_packs(round_file(site.site.evidence, 5)).models == {fingerprint(model(site))}


def test_core_evidence_of_few_rounds_is_kept(open_site: Open) -> None:
    site = open_site()
    for step in range(1, 8):
        ask(site, step, evaluate=False)
    assert available_rounds(site.site.evidence / "core") == (3, 4, 5, 6, 7)


def test_evidence_in_parts_is_the_evidence(open_site: Open) -> None:
    """Packs, weights and views of the whole, at any size of a part; candidates that are not kept are left out."""
    site = open_site()
    local = local_graph(site.data, context_of(site))
    one = initial_dance_model(site.config, 8, 3)
    load_parameters(one, model(site, 0.3))
    passed = forward(one, local)
    whole, seen, found = views_of_all(one, local, passed)
    wanted = evidence_packs(whole, found, passed.logits, "scored", 1, "model", site.data)
    for size in (1, 7, 44):
        parted = replace(local, batching=Batching(size))
        vars(parted).update(neighbours=local.neighbours, second_neighbours=local.second_neighbours)
        again = forward(one, parted)
        torch.testing.assert_close(again.logits, passed.logits)
        evidence, views, vectors = views_of_all(one, parted, passed)
        for name, value in vars(views).items():
            torch.testing.assert_close(value, getattr(seen, name))
        torch.testing.assert_close(vectors.condensed, found.condensed)
        assert all(bool(kept.all()) for kept in evidence.kept)
        packs = evidence_packs(evidence, vectors, passed.logits, "scored", 1, "model", site.data)
        assert [near(pack) for pack in packs] == [near(pack) for pack in wanted]


def near(pack: Any) -> Any:
    """What a pack quotes, with weights to five places."""
    quoted = [(part.node, part.start, part.end, round(part.weight, 5)) for part in pack.chunks]
    return pack.node, quoted, [(one.node, one.hop, round(one.weight, 5)) for one in pack.neighbours]
