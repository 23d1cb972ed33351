from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fedtag.client.methods.dance.shares import score_shares
from fedtag.common.config import RunConfig
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.methods.dance.model import DanceModel, Views, initial_dance_model

NODES, DIM, CLASSES = 9, 6, 3


@pytest.fixture
def adjacency() -> Adjacency:
    ring = torch.arange(NODES)
    edges = torch.stack([ring, (ring + 1) % NODES])
    return normalised_adjacency(torch.cat([edges, edges.flip(0)], dim=1), NODES)


def model(**changes: object) -> DanceModel:
    flat = {"method": "dance", "model.hidden": 5, **changes}
    built = initial_dance_model(RunConfig.from_flat(flat), DIM, CLASSES)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return built


def views(count: int, seed: int = 0) -> Views:
    generator = torch.Generator().manual_seed(seed)
    return Views(
        torch.rand(NODES, 5, generator=generator),
        torch.randn(NODES, DIM, generator=generator),
        torch.randn(NODES, count, DIM, generator=generator),
    )


def value(
    built: DanceModel, adjacency: Adjacency, seen: Views, present: set[str], predicted: Tensor
) -> Tensor:
    """v(S) by its definition, written anew."""
    text = seen.text * float("evidence" in present)
    rest = float("rest" in present)
    x = built.fuse(Views(seen.graph * rest, text, seen.bypass * rest))
    logits = built.backbone(x, adjacency)
    return torch.stack([row[c] - row.mean() for row, c in zip(logits, predicted.tolist(), strict=True)])


@pytest.mark.parametrize("bypass", [True, False])
def test_shares_are_the_shapley_values_of_two_players(adjacency: Adjacency, bypass: bool) -> None:
    changes: dict[str, object] = {} if bypass else {"dance.propagated": 0}
    built, seen = model(**changes), views(3 if bypass else 0)
    with torch.no_grad():
        logits = built.backbone(built.fuse(seen), adjacency)
        predicted, found = logits.argmax(1), score_shares(built, adjacency, seen, logits)
        players = ("evidence", "rest")
        for player, phi in zip(players, (found.evidence, found.rest), strict=True):
            orders = []
            for order in itertools.permutations(players):
                before = set(order[: order.index(player)])
                orders.append(
                    value(built, adjacency, seen, before | {player}, predicted)
                    - value(built, adjacency, seen, before, predicted)
                )
            torch.testing.assert_close(phi, torch.stack(orders).mean(0))
        whole = value(built, adjacency, seen, set(players), predicted)
        torch.testing.assert_close(found.total, whole - value(built, adjacency, seen, set(), predicted))
    torch.testing.assert_close(found.evidence + found.rest, found.total)
    assert bool(((found.share >= 0) & (found.share <= 1)).all())


def test_a_player_without_views_has_no_share(adjacency: Adjacency) -> None:
    built, seen = model(), views(3)

    def share(given: Views) -> Tensor:
        return score_shares(built, adjacency, given, built.backbone(built.fuse(given), adjacency)).share

    nothing = Views(torch.zeros(NODES, 5), torch.zeros(NODES, DIM), torch.zeros(NODES, 3, DIM))
    text_only = replace(nothing, text=seen.text)
    assert share(text_only).tolist() == [1.0] * NODES
    rest_only = replace(seen, text=nothing.text)
    assert share(rest_only).tolist() == [0.0] * NODES
    assert bool(share(nothing).isnan().all())
