from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize
from torch.utils._python_dispatch import TorchDispatchMode

from fedtag.client.condense.core.candidates import candidate_support, indexed_support
from fedtag.client.condense.core.prior import EvidencePrior, evidence_prior, top_columns
from fedtag.client.condense.core.topology import rebuild_topology, strongest_links
from fedtag.common.numerics.ragged import Ragged


def largest_first(values: torch.Tensor, among: Iterable[int]) -> list[int]:
    numbers = values.tolist()
    return sorted(among, key=lambda j: (-numbers[j], j))


def evidence(rows: int, seed: int, all_chunks: int = 20) -> tuple[Ragged, torch.Tensor, EvidencePrior]:
    generator = torch.Generator().manual_seed(seed)
    row = torch.arange(rows).repeat_interleave(4)
    index = torch.randint(all_chunks, (4 * rows,), generator=generator)
    keep = (torch.rand(4 * rows, generator=generator) < 0.7) & (row != rows - 1)
    chunks = Ragged.from_pairs(row[keep], index[keep], rows)
    vectors = 3 * torch.randn(all_chunks, 6, generator=generator, dtype=torch.float64)
    return chunks, vectors, evidence_prior(chunks, vectors)


def brute_prior(chunks: Ragged, vectors: torch.Tensor) -> torch.Tensor:
    unit = normalize(vectors, dim=1)
    sets = [chunks.select(torch.tensor([i])).index.tolist() for i in range(chunks.num_rows)]
    s = torch.zeros(len(sets), len(sets), dtype=torch.float64)
    for i, mine in enumerate(sets):
        for j, theirs in enumerate(sets):
            for a in mine:
                for b in theirs:
                    s[i, j] = max(float(s[i, j]), 1.0 if a == b else float(unit[a] @ unit[b]))
    return s


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_prior_agrees_with_a_loop_over_pairs(seed: int) -> None:
    chunks, vectors, prior = evidence(11, seed)
    expected = brute_prior(chunks, vectors)
    torch.testing.assert_close(prior.rows(0, 11), expected)
    torch.testing.assert_close(prior.rows(4, 7), expected[4:7])
    assert bool(((expected == 1) == (prior.rows(0, 11) == 1)).all())


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 1000), st.data())
def test_top_columns_break_ties_by_id(rows: int, columns: int, seed: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, columns))
    values = torch.randint(3, (rows, columns), generator=torch.Generator().manual_seed(seed)).float()
    chosen = top_columns(values, count)
    for row in range(rows):
        order = largest_first(values[row], range(columns))
        assert chosen[row].tolist() == sorted(order[:count])


def test_candidates_are_the_union_without_the_row_itself() -> None:
    chunks, vectors, prior = evidence(25, 3)
    unit = normalize(
        torch.randn(25, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64), dim=1
    )
    s = brute_prior(chunks, vectors)
    support, mask, value = candidate_support(unit, prior, 4, block=7)
    for i in range(25):
        others = [j for j in range(25) if j != i]
        near = largest_first(unit @ unit[i], others)[:4]
        linked = [j for j in largest_first(s[i], others)[:4] if s[i, j] > 0]
        assert support[i][mask[i]].tolist() == sorted({*near, *linked})
        torch.testing.assert_close(value[i][mask[i]], s[i, support[i][mask[i]]])


def test_blocks_give_what_the_whole_gives() -> None:
    _, _, prior = evidence(60, 4)
    unit = normalize(
        torch.randn(60, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64), dim=1
    )
    whole = candidate_support(unit, prior, 6, block=60)
    for block in (1, 7, 59):
        found = candidate_support(unit, prior, 6, block)
        assert all(torch.equal(one, other) for one, other in zip(found[:2], whole[:2], strict=True))
        torch.testing.assert_close(found[2], whole[2])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_index_finds_most_candidates_and_their_exact_prior(seed: int) -> None:
    rows = 600
    chunks, vectors, prior = evidence(rows, seed, all_chunks=900)
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.randn(12, 16, generator=generator)[torch.randint(12, (rows,), generator=generator)]
    unit = normalize(kinds + torch.randn(rows, 16, generator=generator), dim=1)
    exact, found = candidate_support(unit, prior, 10), indexed_support(unit, prior, 10)
    s = brute_prior(chunks.select(torch.arange(40)), vectors)
    tables = []
    for support, mask, value in (exact, found):
        row = torch.arange(rows).unsqueeze(1).expand_as(support)[mask]
        table = torch.full((rows, rows), -1.0).index_put((row, support[mask]), value[mask].float())
        assert bool((table.diagonal() == -1).all())
        assert support[mask].numel() == int((table >= 0).sum())
        near = table[:40, :40] >= 0
        torch.testing.assert_close(table[:40, :40][near], s[near].float())
        tables.append(table >= 0)
    assert (tables[0] & tables[1]).sum() > 0.9 * tables[0].sum()
    assert abs(int(tables[1].sum()) / int(tables[0].sum()) - 1) < 0.02


def test_by_evidence_alone_an_index_prefers_rows_that_share_a_chunk() -> None:
    # Rows 0, 2, 4, … have chunk 0 and a chunk of their own, which nobody is close to.
    rows = 40
    own = torch.arange(rows) + 1
    sharing = torch.arange(0, rows, 2)
    chunks = Ragged.from_pairs(
        torch.cat([torch.arange(rows), sharing]), torch.cat([own, torch.zeros_like(sharing)]), rows
    )
    prior = evidence_prior(chunks, torch.eye(rows + 1))
    strongest = prior.strongest(3)
    for row, others in enumerate(strongest.tolist()):
        first = [other for other in sharing.tolist() if other != row][:3]
        assert others == (first if row % 2 == 0 else [rows] * 3)
    assert bool((prior.at(torch.where(strongest < rows, strongest, 0))[0] == 1).all())


def test_larger_cores_are_linked_by_an_index_and_say_so() -> None:
    generator = torch.Generator().manual_seed(0)
    kind = torch.arange(10).repeat_interleave(40)
    x = 6 * torch.eye(10, 24)[kind] + torch.randn(400, 24, generator=generator)
    prior = evidence_prior(Ragged.singletons(torch.arange(400)), x)
    options = {"alpha": 8.0, "beta": 0.5}
    exact, indexed = (rebuild_topology(x, prior, exact_rows=most, **options) for most in (400, 399))
    assert (exact.approximate, indexed.approximate) == (False, True)
    pairs = [{*zip(*one.adjacency.edge_index.tolist(), strict=True)} for one in (exact, indexed)]
    assert len(pairs[0] & pairs[1]) > 0.9 * len(pairs[0])
    again = rebuild_topology(x, prior, exact_rows=399, **options).adjacency
    assert torch.equal(again.edge_index, indexed.adjacency.edge_index)
    assert torch.equal(again.weight, indexed.adjacency.weight)
    bare = EvidencePrior.without_evidence(400, x)
    assert torch.equal(bare.strongest(5), torch.full((400, 5), 400))
    assert rebuild_topology(x, bare, exact_rows=1, **options).adjacency.num_nodes == 400
    for rows in (0, 1, 2):
        few = EvidencePrior.without_evidence(rows, x)
        assert rebuild_topology(x[:rows], few, exact_rows=1, **options).adjacency.num_nodes == rows


class Reads(TorchDispatchMode):
    """Counts how often a value is read off a tensor, for which a host waits for its device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += function in WAITING
        return function(*args, **(kwargs or {}))


WAITING = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten._unique2.default,
    torch.ops.aten.repeat_interleave.Tensor,
    torch.ops.aten.bincount.default,
}


def test_waits_for_the_device_do_not_grow_with_the_rows() -> None:
    counts = []
    for rows in (40, 160):
        _, _, prior = evidence(rows, 3, all_chunks=300)
        x = torch.randn(rows, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        with Reads() as reads:
            rebuild_topology(x, prior, alpha=8.0, beta=0.1)
        counts.append(reads.count)
    # FISTA runs until the slowest row has stopped, and asks every eighth time.
    assert abs(counts[1] - counts[0]) <= 50 // 8
    assert counts[0] < 20


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_strongest_links_agree_with_a_dense_construction(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    support = torch.rand(12, 12, generator=generator).fill_diagonal_(2.0).argsort(1)[:, :7]
    z = (torch.rand(12, 7, generator=generator, dtype=torch.float64) - 0.4).clamp_min(0)
    w = torch.zeros(12, 12, dtype=torch.float64).scatter(1, support, z)
    w = w + w.T
    kept = torch.zeros_like(w)
    for i in range(12):
        order = largest_first(w[i], (j for j in range(12) if w[i, j] > 0))[:3]
        kept[i, order] = w[i, order]
    kept = torch.maximum(kept, kept.T)
    largest = kept.amax(1)
    kept = kept / torch.minimum(largest.unsqueeze(1), largest.unsqueeze(0)).clamp_min(1e-30)
    edge_index, weight = strongest_links(support, z, 3)
    actual = torch.zeros_like(w).index_put((edge_index[0], edge_index[1]), weight)
    torch.testing.assert_close(actual, kept)
    assert torch.equal(actual, actual.T)
    assert torch.equal(actual.amax(1), (largest > 0).double())


def test_topology_links_rows_of_the_same_kind() -> None:
    generator = torch.Generator().manual_seed(0)
    kind = torch.arange(4).repeat_interleave(15)
    x = 10 * torch.eye(4, 16)[kind] + torch.randn(60, 16, generator=generator)
    chunks = Ragged.singletons(torch.arange(60))
    prior = evidence_prior(chunks, x + torch.randn(60, 16, generator=generator))
    topology = rebuild_topology(x, prior, alpha=8.0, beta=0.5, block=16)
    source, target = topology.adjacency.edge_index
    off = source != target
    assert not topology.fell_back
    assert 0 < topology.density <= 2 * 5 / 59
    assert topology.density == pytest.approx(int(off.sum()) / (60 * 59))
    assert 1 <= topology.iterations <= 50
    matrix = torch.zeros(60, 60).index_put((source, target), topology.adjacency.weight)
    torch.testing.assert_close(matrix, matrix.T)
    # A normalised adjacency with self-loops has the largest eigenvalue 1.
    torch.testing.assert_close(torch.linalg.eigvalsh(matrix)[-1], torch.ones(()))
    assert float((kind[source] == kind[target])[off].float().mean()) > 0.9


def test_threshold_above_every_cosine_falls_back_to_similarity() -> None:
    chunks, _, prior = evidence(20, 1)
    x = torch.randn(20, 8, generator=torch.Generator().manual_seed(5)) + 1
    topology = rebuild_topology(x, prior, alpha=1.0, beta=2.0, candidates=6)
    assert topology.fell_back
    assert chunks.num_rows == 20
    support, mask, _ = candidate_support(normalize(x, dim=1), prior, 6)
    unit = normalize(x, dim=1)
    similarity = torch.where(mask, (unit @ unit.T).gather(1, support), 0.0).clamp_min(0)
    edge_index, _ = strongest_links(support, similarity, 5)
    source, target = topology.adjacency.edge_index
    off = source != target
    assert {*zip(source[off].tolist(), target[off].tolist(), strict=True)} == {
        *zip(*edge_index.tolist(), strict=True)
    }


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 30])
@pytest.mark.parametrize("fill", [1.0, 0.0])
def test_tiny_identical_and_zero_cores(rows: int, fill: float) -> None:
    prior = evidence_prior(Ragged.singletons(torch.arange(rows)), torch.full((rows, 4), fill))
    topology = rebuild_topology(torch.full((rows, 4), fill), prior, alpha=4.0, beta=1.0)
    assert topology.adjacency.num_nodes == rows
    assert bool(topology.adjacency.weight.isfinite().all())
    assert bool((topology.adjacency.weight > 0).all())
    assert (topology.density > 0) == (rows > 1 and fill > 0)
    assert topology.fell_back == (rows > 1 and fill == 0)


def test_no_evidence_at_all() -> None:
    empty = Ragged(torch.zeros(7, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    prior = evidence_prior(empty, torch.ones(3, 4))
    assert not bool(prior.rows(0, 6).any())
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    found = rebuild_topology(x, prior, alpha=8.0, beta=0.1).adjacency
    assert found.num_nodes == 6
    bare = EvidencePrior.without_evidence(6, x)
    assert torch.equal(bare.rows(1, 5), torch.zeros(4, 6))
    again = rebuild_topology(x, bare, alpha=8.0, beta=0.1).adjacency
    assert torch.equal(again.edge_index, found.edge_index)
    assert torch.equal(again.weight, found.weight)
