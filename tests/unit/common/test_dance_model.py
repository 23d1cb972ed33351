from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from fedtag.common.config import RunConfig
from fedtag.common.methods.dance.model import Views, bypass_scales, initial_dance_model, unit_mean_square
from fedtag.common.models.parameters import fingerprint, parameters_of

DIM, HIDDEN, CLASSES = 6, 4, 3


def config(**changes: object) -> RunConfig:
    dotted = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
    return RunConfig.from_flat({"model.hidden": HIDDEN, **dotted})


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("propagated", "scales"), [(0, ()), (1, (0.0, 1.0)), (2, (0.0, 0.5, 1.0))])
def test_bypass_views_start_by_their_hops(propagated: int, scales: tuple[float, ...]) -> None:
    settings = config(dance__propagated=propagated)
    assert bypass_scales(propagated) == scales
    trained = initial_dance_model(settings, DIM, CLASSES).bypass_map
    assert (trained.scale.tolist() == list(scales)) if scales else trained is None


@pytest.mark.parametrize(("rank", "numbers"), [(0, 3 * DIM * DIM + 3), (2, 3 * DIM * 2 + 2 * DIM + 3)])
def test_rank_bounds_the_trained_map(rank: int, numbers: int) -> None:
    trained = initial_dance_model(config(dance__rank=rank), DIM, CLASSES).bypass_map
    assert sum(parameter.numel() for parameter in trained.parameters()) == numbers
    matrix = trained(torch.eye(3 * DIM).reshape(3 * DIM, 3, DIM)) - trained.scale.repeat_interleave(
        DIM
    ).unsqueeze(1) * torch.eye(DIM).repeat(3, 1)
    assert int(torch.linalg.matrix_rank(matrix, tol=1e-4)) == (rank or DIM)


def test_rows_get_a_root_mean_square_of_one_and_zero_stays_zero() -> None:
    x = rows(5, DIM) * torch.tensor([[1e-3], [1.0], [1e3], [0.0], [7.0]])
    scaled = unit_mean_square(x)
    expected = torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0])
    torch.testing.assert_close(scaled.square().mean(1).sqrt(), expected)
    torch.testing.assert_close(functional.cosine_similarity(scaled[:3], x[:3]), torch.ones(3))


def test_fusion_is_the_formula() -> None:
    model = initial_dance_model(config(dance__rank=2), DIM, CLASSES)
    views = Views(rows(5, HIDDEN, seed=1), rows(5, DIM, seed=2), rows(5, 3, DIM, seed=3))
    with torch.no_grad():
        inner, outer = model.text_map.map
        text = torch.eye(DIM) + outer.weight @ inner.weight
        gate = torch.cat([views.graph, views.text], 1) @ model.gate.weight.T + model.gate.bias
        total = views.graph @ model.graph_projection.weight.T
        total = total + gate.sigmoid() * (views.text @ text.T)
        inner, outer = model.bypass_map.map
        for k, (scale, weight) in enumerate(
            zip((0.0, 0.5, 1.0), inner.weight.split(DIM, dim=1), strict=True)
        ):
            total = total + views.bypass[:, k] @ (scale * torch.eye(DIM) + outer.weight @ weight).T
        centred = total - total.mean(1, keepdim=True)
        normal = centred / (centred.square().mean(1, keepdim=True) + model.norm.eps).sqrt()
        torch.testing.assert_close(model.fuse(views), normal * model.norm.weight + model.norm.bias)


def test_fusion_starts_with_the_length_of_a_text_vector() -> None:
    model = initial_dance_model(config(), DIM, CLASSES)
    fused = model.fuse(Views(rows(50, HIDDEN), rows(50, DIM, seed=1), rows(50, 3, DIM, seed=2)))
    torch.testing.assert_close(fused.norm(dim=1), torch.ones(50), rtol=1e-3, atol=1e-3)
    assert model.text_map.scale.tolist() == [1.0]


def test_fusion_works_without_bypass_views() -> None:
    model = initial_dance_model(config(dance__propagated=0), DIM, CLASSES)
    fused = model.fuse(Views(rows(3, HIDDEN), rows(3, DIM), torch.zeros(3, 0, DIM)))
    assert bool(fused.isfinite().all())


def test_queries_and_keys_are_the_formulas_on_normalised_rows() -> None:
    model, g, t = initial_dance_model(config(), DIM, CLASSES), rows(5, HIDDEN), rows(5, DIM)
    normal_g = g / g.square().mean(1, keepdim=True).sqrt()
    normal_t = t / t.square().mean(1, keepdim=True).sqrt()
    torch.testing.assert_close(model.neighbour_queries(g), normal_g @ model.neighbour_query.weight.T)
    torch.testing.assert_close(model.neighbour_keys(t), normal_t @ model.neighbour_key.weight.T)
    torch.testing.assert_close(
        model.chunk_queries(g), math.sqrt(DIM) * (normal_g @ model.chunk_query.weight.T)
    )
    # Their scale does not depend on that of the hidden state.
    torch.testing.assert_close(model.neighbour_queries(1000 * g), model.neighbour_queries(g))


def test_the_seed_decides_and_the_global_generator_is_untouched() -> None:
    before = torch.get_rng_state()
    prints = [
        fingerprint(parameters_of(initial_dance_model(config(seed=s), DIM, CLASSES))) for s in (0, 0, 1)
    ]
    assert torch.equal(torch.get_rng_state(), before)
    assert prints[0] == prints[1] != prints[2]
