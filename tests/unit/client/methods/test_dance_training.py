from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from client.condense.core import Core
from client.condense.evidence import evidence_vectors
from client.methods.dance.condensation import choose_core, choose_evidence, core_graph, forward, views
from client.methods.dance.local_graph import LocalGraph, local_graph
from client.methods.dance.training import CoreLoss, symmetric_divergence
from client.session import Session
from client.site import Site
from common.config import RunConfig
from common.models.dance import DanceModel, initial_dance_model
from common.randomness import numpy_generator

Open = Callable[..., tuple[Session, LocalGraph, DanceModel]]


@pytest.fixture
def opened(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    folder = write_feature_folder(tmp_path / "site", 45)

    def build(**changes: Any) -> tuple[Session, LocalGraph, DanceModel]:
        flat = {
            "method": "dance",
            "ratio": 0.3,
            "model.hidden": 6,
            "model.dropout": 0.0,
            "train.prox-mu": 0.0,
        }
        dotted = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
        config = RunConfig.from_flat({**flat, **dotted})
        session = Session(Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)
        local = local_graph(session, session.graph, session.adjacency)
        return session, local, initial_dance_model(config, 8, 3)

    return build


def test_the_divergence_is_the_mean_of_both_kls() -> None:
    a, b = (torch.randn(6, 4, generator=torch.Generator().manual_seed(s)) for s in (1, 2))
    log_a, log_b = a.log_softmax(1), b.log_softmax(1)
    one = functional.kl_div(log_b, log_a, reduction="batchmean", log_target=True)
    other = functional.kl_div(log_a, log_b, reduction="batchmean", log_target=True)
    torch.testing.assert_close(symmetric_divergence(a, b), (one + other) / 2)
    assert symmetric_divergence(a, a).item() == 0
    torch.testing.assert_close(symmetric_divergence(a, b + 5), symmetric_divergence(a, b))


def prepared(opened: Open, **changes: Any) -> tuple[Any, ...]:
    session, local, model = opened(**changes)
    passed = forward(model, local)
    core = choose_core(local, passed, 0.3, numpy_generator(0), 0, 0)
    evidence = choose_evidence(model, local, passed, core.nodes)
    seen, _ = views(model, local, passed.g, evidence)
    adjacency, _ = core_graph(session.config.dance, local, evidence, model.fuse(seen).detach())
    return session, local, model, passed, core, evidence, seen, adjacency


@pytest.mark.parametrize("pseudo", [0.0, 0.5])
def test_the_loss_is_the_sum_of_its_terms(opened: Open, pseudo: float) -> None:
    session, local, model, passed, core, evidence, _, adjacency = prepared(
        opened, dance__pseudo_label_weight=pseudo, dance__align=0.2, dance__head=0.7, dance__plain_path=0.3
    )
    # One pseudo-labelled node and one without a label stand beside the training nodes.
    untrained = (~local.graph.train_mask).nonzero().squeeze(1)[:2]
    nodes = torch.cat([core.nodes[:-2], untrained])
    core = Core(nodes, torch.cat([core.labels[:-2], torch.tensor([1, -1])]), 0.3)
    evidence = choose_evidence(model, local, passed, nodes)
    seen, _ = views(model, local, passed.g, evidence)
    loss = CoreLoss(
        model,
        local,
        passed.g,
        core,
        evidence,
        adjacency,
        session.config.dance,
        torch.Generator().manual_seed(0),
    )()

    weight = local.graph.train_mask[nodes].double()
    weight[-2], weight[-1] = pseudo, 0

    def entropy(logits: torch.Tensor) -> torch.Tensor:
        chosen = logits.double().log_softmax(1).gather(1, core.labels.clamp(min=0)[:, None]).squeeze(1)
        return -(weight * chosen).sum() / weight.sum()

    x = model.fuse(seen)
    graph, text = model.graph_head(seen.graph), model.text_head(seen.text)
    expected = entropy(model.backbone(x, adjacency))
    expected = expected + 0.7 * (entropy(model.fused_head(x)) + entropy(graph) + entropy(text))
    expected = expected + 0.2 * symmetric_divergence(graph, text)
    expected = expected + 0.3 * entropy(model.backbone(local.texts.pooled[nodes], adjacency))
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)


def test_switched_off_terms_leave_their_parameters_without_gradient(opened: Open) -> None:
    session, local, model, passed, core, evidence, _, adjacency = prepared(
        opened, dance__align=0.0, dance__head=0.0, dance__plain_path=0.0
    )
    generator = torch.Generator().manual_seed(0)
    CoreLoss(model, local, passed.g, core, evidence, adjacency, session.config.dance, generator)().backward()
    for head in (model.fused_head, model.graph_head, model.text_head):
        assert head.weight.grad is None
    assert model.text_projection.weight.grad is not None
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


def test_no_label_but_those_of_training_nodes_chooses_the_core(opened: Open) -> None:
    _, local, model = opened()
    passed = forward(model, local)
    y = torch.where(local.graph.train_mask, local.graph.y, (local.graph.y + 1) % 3)
    other = replace(local, graph=replace(local.graph, y=y))
    one, two = (choose_core(graph, passed, 0.3, numpy_generator(0), 0, 0) for graph in (local, other))
    assert torch.equal(one.nodes, two.nodes)
    assert torch.equal(one.labels, two.labels)


def test_the_induced_graph_is_the_normalised_block_of_the_core(opened: Open) -> None:
    _, local, _, _, core, _, _, adjacency = prepared(opened, dance__topology="induced")
    dense = torch.zeros(45, 45, dtype=torch.float64)
    source, target = local.graph.edge_index
    dense[target, source] = local.graph.edge_weight.double()
    block = dense[core.nodes][:, core.nodes] + torch.eye(core.nodes.numel(), dtype=torch.float64)
    scale = block.sum(1).rsqrt()
    expected = scale[:, None] * block * scale[None, :]
    found = torch.zeros_like(expected)
    found[adjacency.edge_index[1], adjacency.edge_index[0]] = adjacency.weight.double()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("condense", [True, False])
def test_the_text_view_is_a_mixture(opened: Open, condense: bool) -> None:
    _, local, model, passed, core, evidence, seen, _ = prepared(
        opened, dance__mix=0.25, dance__text_condensation=condense
    )
    found = evidence_vectors(model, passed.g, local.texts, evidence)
    own = found.condensed if condense else local.texts.pooled[core.nodes]
    torch.testing.assert_close(seen.text, 0.25 * own + 0.75 * found.context)
    assert torch.equal(seen.graph, passed.g[core.nodes])
    assert torch.equal(seen.bypass, local.bypass[core.nodes])


@pytest.mark.parametrize(("propagated", "document"), [(0, False), (0, True), (2, False), (2, True)])
def test_bypass_views_are_propagations_and_the_document(
    opened: Open, propagated: int, document: bool
) -> None:
    _, local, _ = opened(dance__propagated=propagated, dance__document=document)
    dense = torch.zeros(45, 45)
    dense[local.adjacency.edge_index[1], local.adjacency.edge_index[0]] = local.adjacency.weight
    t = local.texts.pooled
    expected = [t, dense @ t, dense @ dense @ t][: propagated + 1] if propagated else []
    expected += [local.document] if document else []
    assert local.bypass.shape == (45, len(expected), 8)
    for place, view in enumerate(expected):
        torch.testing.assert_close(local.bypass[:, place], view)


def test_candidates_are_the_nodes_their_neighbours_and_second_neighbours(opened: Open) -> None:
    _, local, _ = opened(dance__difficulty="none", dance__two_hop_budget=20)
    links = torch.zeros(45, 45, dtype=torch.bool)
    links[local.graph.edge_index[1], local.graph.edge_index[0]] = True
    rows = torch.tensor([4, 0])
    own, first, second = local.candidates(rows, torch.zeros(45))
    for place, row in enumerate(rows.tolist()):
        near = set(links[row].nonzero().squeeze(1).tolist())
        far = {other for node in near for other in links[node].nonzero().squeeze(1).tolist()} - near - {row}
        parts = [hop.index[hop.ptr[place] : hop.ptr[place + 1]].tolist() for hop in (own, first, second)]
        assert parts[0] == [row]
        assert set(parts[1]) == near
        assert set(parts[2]) == far
