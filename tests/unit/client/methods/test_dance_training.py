from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from torch.nn import functional

from fedtag.client.condense.core.calibration import temperature
from fedtag.client.condense.core.members import Core
from fedtag.client.condense.core.of_round import choose_core, core_of_round, curriculum_pace
from fedtag.client.methods.dance.condensation import Forward, choose_evidence, core_graph, forward, views
from fedtag.client.methods.dance.evidence import evidence_vectors
from fedtag.client.methods.dance.local_graph import LocalGraph, local_graph
from fedtag.client.methods.dance.training import CoreLoss, laplace, symmetric_divergence
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.graph import Adjacency
from fedtag.common.methods.dance.model import DanceModel, Views, initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.randomness import numpy_generator
from tests.exchanges import context_of

Open = Callable[..., tuple[SiteRun, LocalGraph, DanceModel]]


@pytest.fixture
def opened(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    folder = write_feature_folder(tmp_path / "site", 45)

    def build(**changes: Any) -> tuple[SiteRun, LocalGraph, DanceModel]:
        flat = {
            "method": "dance",
            "ratio": 0.3,
            "model.hidden": 6,
            "model.dropout": 0.0,
            "train.prox-mu": 0.0,
        }
        dotted = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
        config = RunConfig.from_flat({**flat, **dotted})
        site = SiteRun(Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)
        local = local_graph(site.data, context_of(site))
        return site, local, initial_dance_model(config, 8, 3)

    return build


def test_the_divergence_is_the_mean_of_both_kls() -> None:
    a, b = (torch.randn(6, 4, generator=torch.Generator().manual_seed(s)) for s in (1, 2))
    log_a, log_b = a.log_softmax(1), b.log_softmax(1)
    one = functional.kl_div(log_b, log_a, reduction="batchmean", log_target=True)
    other = functional.kl_div(log_a, log_b, reduction="batchmean", log_target=True)
    torch.testing.assert_close(symmetric_divergence(a, b), (one + other) / 2)
    assert symmetric_divergence(a, a).item() == 0
    torch.testing.assert_close(symmetric_divergence(a, b + 5), symmetric_divergence(a, b))


def chosen(local: LocalGraph, passed: Forward, ratio: float, step: int = 0, pace: float = 1.0) -> Core:
    return choose_core(
        passed.g,
        passed.logits,
        torch.where(local.graph.train_mask, local.graph.y, -1),
        local.config,
        num_classes=3,
        ratio=ratio,
        generator=numpy_generator(0),
        rotation=0,
        step=step,
        pace=pace,
    )


def prepared(opened: Open, **changes: Any) -> tuple[Any, ...]:
    site, local, model = opened(**changes)
    passed = forward(model, local)
    core = chosen(local, passed, 0.3)
    evidence = choose_evidence(model, local, passed, core.nodes)
    seen, _ = views(model, local, passed.g, evidence)
    adjacency, _ = core_graph(site.config.own(DanceConfig), local, evidence, model.fuse(seen).detach())
    return site, local, model, passed, core, evidence, seen, adjacency


@pytest.mark.parametrize("pseudo", [0.0, 0.5])
def test_the_loss_is_the_sum_of_its_terms(opened: Open, pseudo: float) -> None:
    site, local, model, passed, core, evidence, _, adjacency = prepared(
        opened,
        dance__pseudo_label_weight=pseudo,
        dance__align=0.2,
        dance__head=0.7,
        dance__plain_path=0.3,
        dance__sufficiency=0.9,
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
        site.config.own(DanceConfig),
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
    only = Views(torch.zeros_like(seen.graph), seen.text, torch.zeros_like(seen.bypass))
    loops = torch.arange(nodes.numel()).repeat(2, 1)
    alone = Adjacency(loops, torch.ones(nodes.numel()), nodes.numel())
    expected = expected + 0.9 * entropy(model.backbone(model.fuse(only), alone))
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)


def test_consistency_adds_the_divergence_between_fused_and_unfused_features(opened: Open) -> None:
    site, local, model, passed, core, evidence, seen, adjacency = prepared(opened)
    config = site.config.own(DanceConfig)

    def loss(**changes: float) -> torch.Tensor:
        changed = config.model_copy(update=changes)
        generator = torch.Generator().manual_seed(0)
        return CoreLoss(model, local, passed.g, core, evidence, adjacency, changed, generator)()

    fused = model.backbone(model.fuse(seen), adjacency)
    plain = model.backbone(local.texts.pooled[core.nodes], adjacency)
    expected = loss() + 0.6 * symmetric_divergence(fused, plain)
    torch.testing.assert_close(loss(consistency=0.6), expected)


def test_noise_is_laplace_and_is_drawn_once_a_round(opened: Open) -> None:
    draws = laplace(torch.zeros(400, 500), 0.3, torch.Generator().manual_seed(1)).double()
    test = stats.kstest(draws.flatten()[:20_000].numpy(), stats.laplace(scale=0.3).cdf)
    assert test.pvalue > 0.01
    site, local, model, passed, core, evidence, _, adjacency = prepared(opened, dance__noise=0.5)
    generator = torch.Generator().manual_seed(0)
    loss = CoreLoss(
        model, local, passed.g, core, evidence, adjacency, site.config.own(DanceConfig), generator
    )
    clean = site.config.own(DanceConfig).model_copy(update={"noise": 0.0})
    silent = CoreLoss(model, local, passed.g, core, evidence, adjacency, clean, torch.Generator())
    assert torch.equal(loss(), loss())
    assert not torch.allclose(loss(), silent())


def test_switched_off_terms_leave_their_parameters_without_gradient(opened: Open) -> None:
    site, local, model, passed, core, evidence, _, adjacency = prepared(
        opened, dance__align=0.0, dance__head=0.0, dance__sufficiency=0.0
    )
    generator = torch.Generator().manual_seed(0)
    CoreLoss(
        model, local, passed.g, core, evidence, adjacency, site.config.own(DanceConfig), generator
    )().backward()
    for head in (model.fused_head, model.graph_head, model.text_head):
        assert head.weight.grad is None
    assert model.text_map.scale.grad is not None
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


def test_no_label_but_those_of_training_nodes_chooses_the_core(opened: Open) -> None:
    site, local, model = opened(dance__confidence=0.3, dance__pseudo_share=0.5)
    passed = forward(model, local)
    one = core_of_round(site.data, context_of(site), site.config.own(DanceConfig), passed.g, passed.logits)
    graph = site.data.training.graph
    y = torch.where(graph.train_mask, graph.y, (graph.y + 1) % 3)
    site.data.training.graph = replace(graph, y=y)
    two = core_of_round(site.data, context_of(site), site.config.own(DanceConfig), passed.g, passed.logits)
    assert not bool(graph.train_mask[one.nodes].all())
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


@pytest.mark.parametrize("propagated", [0, 1, 2])
@pytest.mark.parametrize("view", ["chunks", "document", "both"])
def test_bypass_views_are_propagations(opened: Open, propagated: int, view: str) -> None:
    _, local, _ = opened(dance__propagated=propagated, dance__propagated_view=view)
    dense = torch.zeros(45, 45)
    dense[local.adjacency.edge_index[1], local.adjacency.edge_index[0]] = local.adjacency.weight
    chunks, document = local.texts.pooled, local.document
    v = {"chunks": chunks, "document": document, "both": (chunks + document) / 2}[view]
    expected = [v, dense @ v, dense @ dense @ v][: propagated + 1] if propagated else []
    assert local.bypass.shape == (45, len(expected), 8)
    for place, seen in enumerate(expected):
        torch.testing.assert_close(local.bypass[:, place], seen)


@pytest.mark.parametrize(("calibration", "scale"), [("none", 1.0), ("temperature", None)])
def test_pseudo_labels_come_from_scaled_confidences(
    opened: Open, calibration: str, scale: float | None
) -> None:
    _, local, model = opened(
        dance__calibration=calibration, dance__pseudo_share=0.5, dance__confidence=0.4, ratio=1.0
    )
    passed = forward(model, local)
    known = local.graph.train_mask
    if scale is None:
        scale = temperature(passed.logits[known], local.graph.y[known])
    confident = (passed.logits / scale).softmax(1).max(1).values >= 0.4
    core = chosen(local, passed, 1.0)
    assert set(core.nodes.tolist()) == set((confident | known).nonzero().squeeze(1).tolist())


def test_the_curriculum_starts_with_the_nodes_that_the_model_knows(opened: Open) -> None:
    _, local, model = opened(dance__core_policy="curriculum")
    passed = forward(model, local)
    known, y = local.graph.train_mask, local.graph.y
    surprise = -passed.logits.log_softmax(1).gather(1, y.clamp(min=0)[:, None]).squeeze(1)
    seen = set()
    for step in range(20):
        seen |= set(chosen(local, passed, 0.1, step, 0.5).nodes.tolist())
    easiest = set()
    for label in range(3):
        members = (known & (y == label)).nonzero().squeeze(1)
        easiest |= set(members[surprise[members].argsort()][: (members.numel() + 1) // 2].tolist())
    assert seen == easiest != set(known.nonzero().squeeze(1).tolist())


@pytest.mark.parametrize(("number", "share"), [(1, 0.5), (16, 0.75), (31, 1.0), (90, 1.0)])
def test_the_curriculum_opens_up(number: int, share: float) -> None:
    assert curriculum_pace(number, 30) == pytest.approx(share)


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
