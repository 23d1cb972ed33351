from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.train.statistics import (
    KEY_DIM,
    attention_norm,
    class_distribution,
    client_statistics,
    projections,
    sampled_rows,
    validation_accuracy,
)
from fedtag.common.config import RunConfig
from fedtag.common.graph import Graph
from fedtag.server.strategies.weights import LARGEST_ATTENTION, parse_statistics
from tests.exchanges import context_of


def maps(dim: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return projections(dim, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("nodes", "dim"), [(1, 3), (7, 5), (40, 64)])
def test_the_norm_is_that_of_a_float64_oracle(nodes: int, dim: int) -> None:
    rng = np.random.default_rng(nodes)
    x = rng.standard_normal((nodes, dim)).astype(np.float32)
    x[-1] *= 1000
    query, key, value = maps(dim)
    unit = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float64)
    q, k, v = (unit @ m.double().numpy() for m in (query, key, value))
    exact = np.linalg.norm(softmax(q @ k.T / np.sqrt(KEY_DIM), axis=1) @ v) / np.sqrt(nodes)
    found = float(attention_norm(torch.from_numpy(x), query, key, value))
    assert found == pytest.approx(exact, rel=1e-5)
    assert found <= np.linalg.norm(value.numpy(), 2) + 1e-6


def test_the_norm_knows_neither_the_number_nor_the_order_nor_the_length_of_rows() -> None:
    x = torch.randn(30, 16, generator=torch.Generator().manual_seed(1))
    norm = attention_norm(x, *maps(16))
    torch.testing.assert_close(attention_norm(torch.cat([x, x]), *maps(16)), norm)
    torch.testing.assert_close(attention_norm(x.flip(0), *maps(16)), norm)
    torch.testing.assert_close(attention_norm(x * torch.arange(1, 31)[:, None], *maps(16)), norm)
    alike = x[:1].expand(30, -1)
    assert float(attention_norm(alike, *maps(16))) > 2 * float(norm)
    assert float(attention_norm(torch.zeros(4, 16), *maps(16))) == 0


@pytest.mark.parametrize("dim", [1, 2, 16, 384])
def test_no_projection_exceeds_what_the_server_takes(dim: int) -> None:
    for seed in range(20):
        assert float(torch.linalg.matrix_norm(maps(dim, seed)[2], 2)) < LARGEST_ATTENTION


def test_projections_have_the_agreed_shapes_and_scale() -> None:
    query, key, value = maps(400)
    assert (query.shape, key.shape, value.shape) == ((400, KEY_DIM), (400, KEY_DIM), (400, 400))
    assert not torch.equal(query, key)
    for matrix in (query, key, value):
        assert float(matrix.std()) == pytest.approx(1 / 20, rel=0.05)


@given(st.integers(1, 2000), st.integers(0, 99))
def test_at_most_512_rows_are_sampled(count: int, seed: int) -> None:
    rows = sampled_rows(count, torch.Generator().manual_seed(seed)).tolist()
    assert len(set(rows)) == len(rows) == min(count, 512)
    assert rows == sorted(rows)
    assert rows[0] >= 0
    assert rows[-1] < count


def test_every_row_may_be_sampled() -> None:
    seen = {
        row for seed in range(40) for row in sampled_rows(700, torch.Generator().manual_seed(seed)).tolist()
    }
    assert seen == set(range(700))


def test_the_distribution_is_the_mean_probability() -> None:
    logits = torch.tensor([[0.0, 0.0], [50.0, -50.0], [0.0, np.log(3)]])
    torch.testing.assert_close(
        class_distribution(logits),
        torch.tensor([(0.5 + 1 + 0.25) / 3, (0.5 + 0.75) / 3], dtype=torch.float64),
    )


@pytest.mark.parametrize(("count", "expected"), [(0, None), (3, None), (4, 0.75), (5, 0.8)])
def test_accuracy_needs_four_validation_nodes(count: int, expected: float | None) -> None:
    y = torch.tensor([0, 1, 1, 1, 0, 1])
    mask = torch.arange(6) < count
    none = torch.zeros(6, dtype=torch.bool)
    graph = Graph(
        torch.zeros(6, 1), torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), y, none, mask, none, 2
    )
    right = torch.nn.functional.one_hot(y, 2).float()
    right[1] = right[1].flip(0)
    assert validation_accuracy(right, graph) == expected


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Callable[..., SiteRun]:
    folder = write_feature_folder(tmp_path / "site")

    def build(name: str = "site", **changes: Any) -> SiteRun:
        config = RunConfig.from_flat({"method": "fedavg", **changes})
        return SiteRun(Site(name, folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


def statistics_of(site: SiteRun, logits: torch.Tensor, number: int) -> dict[str, Any]:
    return client_statistics(site.data, context_of(site, number), logits)


def test_statistics_are_json_that_the_server_takes(open_site: Callable[..., SiteRun]) -> None:
    site = open_site()
    logits = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    told = json.loads(json.dumps(statistics_of(site, logits, 1), allow_nan=False))
    assert told.keys() == {"distribution", "attention", "accuracy"}
    parsed = parse_statistics(told, 3)
    np.testing.assert_allclose(parsed.distribution, logits.softmax(1).mean(0), rtol=1e-5)
    mask = site.data.graph.val_mask
    right = (logits.argmax(1) == site.data.graph.y)[mask].tolist()
    assert parsed.accuracy == sum(right) / len(right)
    assert 0 < parsed.attention < 3
    # All 60 nodes are in every sample, whatever the round and the client.
    other = statistics_of(open_site("other"), logits, 5)
    assert other["attention"] == pytest.approx(told["attention"])
    assert statistics_of(open_site(seed=1), logits, 1)["attention"] != told["attention"]


def test_the_sample_depends_on_round_and_client(
    open_site: Callable[..., SiteRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedtag.client.train.statistics.MOST_SAMPLED", 10)
    logits = torch.zeros(60, 3)

    def norm(name: str, round_number: int) -> float:
        return statistics_of(open_site(name), logits, round_number)["attention"]

    assert norm("site", 1) == norm("site", 1)
    assert len({norm("site", 1), norm("site", 2), norm("other", 1)}) == 3


def test_inductive_statistics_do_not_see_test_nodes(open_site: Callable[..., SiteRun]) -> None:
    site = open_site(**{"train.inductive": True})
    logits = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    told = statistics_of(site, logits, 1)
    hidden = site.data.graph.test_mask
    changed = logits.masked_fill(hidden[:, None], 9.0)
    assert statistics_of(site, changed, 1) == told
    site.data.training.graph.x[hidden] = 7.0
    assert statistics_of(site, logits, 1) == told
    plain = open_site()
    assert statistics_of(plain, changed, 1)["distribution"] != told["distribution"]
