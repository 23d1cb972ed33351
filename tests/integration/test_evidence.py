"""The evidence that a run leaves at its sites: literal, within budgets, near, and of the released model."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

from fedtag.client.evidence.packs import EvidencePack
from fedtag.client.evidence.store import available_rounds, read_packs, round_file
from fedtag.client.evidence.verification import verify
from fedtag.common.methods.dance.model import initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.models.parameters import fingerprint, load_parameters

if TYPE_CHECKING:
    from fedtag.client.site.site import Site
    from tests.integration.conftest import Federated


def packs_of(site: Site, kind: str, round_number: int) -> tuple[EvidencePack, ...]:
    folder = site.evidence / "core" if kind == "core" else site.evidence
    return read_packs(round_file(folder, round_number))


def all_packs(run: Federated) -> list[tuple[Site, EvidencePack]]:
    return [
        (site, pack)
        for site in run.sites
        for kind in ("core", "scored")
        for number in available_rounds(site.evidence / "core" if kind == "core" else site.evidence)
        for pack in packs_of(site, kind, number)
    ]


def texts_of(site: Site) -> dict[str, str]:
    """From the site's file, not by the code under test."""
    table = parquet.read_table(site.folder / "nodes.parquet")
    return dict(zip(table["node_id"].to_pylist(), table["text"].to_pylist(), strict=True))


def network_of(site: Site) -> nx.Graph:
    edges = parquet.read_table(site.folder / "edges.parquet")
    network = nx.Graph()
    network.add_nodes_from(texts_of(site))
    network.add_edges_from(zip(edges["src"].to_pylist(), edges["dst"].to_pylist(), strict=True))
    return network


def test_packs_exist_for_each_round_and_each_node(dance_run: Federated) -> None:
    card = dance_run.directory.read_model_card()
    for site, session in zip(dance_run.sites, dance_run.sessions, strict=True):
        assert card["round"] in available_rounds(site.evidence)
        released = packs_of(site, "scored", card["round"])
        assert [pack.node for pack in released] == list(texts_of(site))
        assert available_rounds(site.evidence / "core") == (1, 2, 3, 4)
        for number in range(1, 5):
            core = packs_of(site, "core", number)
            assert len(core) == int(np.ceil(dance_run.config.ratio * session.data.graph.num_nodes - 1e-9))
            assert {pack.kind for pack in core} == {"core"}
            assert {pack.round for pack in core} == {number}


def test_every_chunk_is_literal(dance_run: Federated) -> None:
    texts = {site.name: texts_of(site) for site in dance_run.sites}
    found = 0
    for site, pack in all_packs(dance_run):
        chosen = {neighbour.node for neighbour in pack.neighbours}
        bank_spans = {(chunk.node, chunk.start, chunk.end) for chunk in pack.chunks}
        assert len(bank_spans) == len(pack.chunks)
        for chunk in pack.chunks:
            text = texts[site.name][str(chunk.node)]
            span = text[chunk.start : chunk.end]
            assert 0 <= chunk.start < chunk.end <= len(text)
            assert span == span.strip() != ""
            assert chunk.sha256 == hashlib.sha256(text.encode()).hexdigest()
            assert chunk.node in chosen
            found += 1
    assert found > 1000


@pytest.mark.parametrize("kind", ["core", "scored"])
def test_budgets_hold_and_are_used(dance_run: Federated, kind: str) -> None:
    dance = dance_run.config.own(DanceConfig)
    budgets = {0: 1, 1: dance.one_hop_budget, 2: dance.two_hop_budget}
    largest = dict.fromkeys([*budgets, "chunks"], 0)
    nothing = everything = 0
    for _, pack in all_packs(dance_run):
        if pack.kind != kind:
            continue
        for hop in {neighbour.hop for neighbour in pack.neighbours}:
            weights = [neighbour.weight for neighbour in pack.neighbours if neighbour.hop == hop]
            assert len(weights) <= budgets[hop]
            assert sum(weights) == pytest.approx(1, abs=1e-5)
            assert min(weights) >= 0
            nothing += weights.count(0)
            everything += len(weights)
            largest[hop] = max(largest[hop], len(weights))
        assert len(pack.chunks) <= dance.chunk_budget
        assert sum(chunk.weight for chunk in pack.chunks) == pytest.approx(1, abs=1e-5)
        largest["chunks"] = max(largest["chunks"], len(pack.chunks))
    assert largest == {**budgets, "chunks": dance.chunk_budget}
    # A core node's neighbours are chosen before the round's steps and weighed after them, when entmax may leave one of
    # them nothing; where both are done at once, every chosen neighbour has a weight.
    assert nothing <= (everything // 100 if kind == "core" else 0)


def test_neighbours_are_at_their_distance(dance_run: Federated) -> None:
    networks = {site.name: network_of(site) for site in dance_run.sites}
    distances = {
        name: dict(nx.all_pairs_shortest_path_length(network, 2)) for name, network in networks.items()
    }
    seen = {0: 0, 1: 0, 2: 0}
    for site, pack in all_packs(dance_run):
        near = distances[site.name][pack.node]
        assert len({neighbour.node for neighbour in pack.neighbours}) == len(pack.neighbours)
        for neighbour in pack.neighbours:
            assert near.get(neighbour.node) == neighbour.hop
            seen[neighbour.hop] += 1
        for hop in (1, 2):  # a hop with a candidate is never left empty
            there = any(distance == hop for distance in near.values())
            assert there == any(neighbour.hop == hop for neighbour in pack.neighbours)
    assert all(seen.values())


def test_verification_agrees_and_finds_a_changed_text(dance_run: Federated) -> None:
    for site in dance_run.sites:
        texts = texts_of(site)
        packs = [pack for other, pack in all_packs(dance_run) if other == site]
        outcome = verify(packs, list(texts), list(texts.values()))
        assert outcome.checked == len(packs)
        assert outcome.violations == ()
        changed = {**texts, packs[0].chunks[0].node: "something else"}
        assert not verify(packs, list(changed), list(changed.values())).holds
        moved = {node: f" {text}" for node, text in texts.items()}
        assert not verify(packs, list(moved), list(moved.values())).holds


def test_packs_name_the_released_model(dance_run: Federated) -> None:
    card = dance_run.directory.read_model_card()
    released = dance_run.directory.read_model()
    assert fingerprint(released) == card["fingerprint"]
    for site in dance_run.sites:
        assert {pack.model for pack in packs_of(site, "scored", card["round"])} == {card["fingerprint"]}
        assert len({packs_of(site, "core", number)[0].model for number in range(1, 5)}) == 4


def test_packs_hold_the_prediction_of_the_released_model(dance_run: Federated) -> None:
    """Predictions and labels of the packs give the accuracy of the evidence path that the run reports."""
    card = dance_run.directory.read_model_card()
    rows = [row for row in dance_run.directory.read_clients() if row.round == card["round"]]
    assert {row.client for row in rows} == {site.name for site in dance_run.sites}
    by_client = {row.client: row for row in rows}
    for site, session in zip(dance_run.sites, dance_run.sessions, strict=True):
        packs = packs_of(site, "scored", card["round"])
        labels = [session.data.text_graph.classes[label] for label in session.data.text_graph.labels]
        assert [pack.label for pack in packs] == labels
        test = session.data.graph.test_mask.tolist()
        right = [pack.prediction == pack.label for pack, counted in zip(packs, test, strict=True) if counted]
        expected = by_client[site.name].scores["test_accuracy_evidence"]
        assert sum(right) / len(right) == pytest.approx(expected, abs=1e-9)


def test_released_model_loads_into_a_fresh_one(dance_run: Federated) -> None:
    card = dance_run.directory.read_model_card()
    model = initial_dance_model(dance_run.config, card["dimension"], len(card["classes"]))
    load_parameters(model, dance_run.directory.read_model())
    assert all(bool(torch.isfinite(value).all()) for value in model.state_dict().values())
