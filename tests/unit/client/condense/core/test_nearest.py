from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from fedtag.client.condense.core.nearest import nearest


def clustered(rows: int, seed: int, dim: int = 32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(20, dim, generator=generator)
    kind = torch.randint(20, (rows,), generator=generator)
    return normalize(centres[kind] + torch.randn(rows, dim, generator=generator), dim=1)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nine_in_ten_of_the_nearest_are_found(seed: int) -> None:
    vectors = clustered(3000, seed)
    products = (vectors @ vectors.T).fill_diagonal_(-torch.inf)
    exact = products.topk(10).indices
    ids, found = nearest(vectors, 10)
    assert ids.shape == (3000, 10)
    assert bool((ids != torch.arange(3000).unsqueeze(1)).all())
    torch.testing.assert_close(found, products.gather(1, ids))
    assert bool((found[:, 1:] <= found[:, :-1]).all())
    shared = (ids.unsqueeze(2) == exact.unsqueeze(1)).any(2).float().mean()
    assert shared > 0.9


def test_neither_repetition_nor_threads_change_what_is_found() -> None:
    vectors, threads = clustered(2000, 3), torch.get_num_threads()
    first = nearest(vectors, 10)
    torch.set_num_threads(threads + 3)
    again = nearest(vectors, 10)
    torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@pytest.mark.parametrize("rows", [2, 3, 12, 300])
def test_few_and_equal_vectors(rows: int) -> None:
    count = min(10, rows - 1)
    ids, found = nearest(torch.eye(4, dtype=torch.float64)[:1].expand(rows, 4), count)
    assert ids.shape == found.shape == (rows, count)
    assert found.dtype == torch.float64
    for row, others in enumerate(ids.tolist()):
        real = [other for other in others if other < rows]
        assert row not in real
        assert len(set(real)) == len(real) > 0
    assert bool(((found == 1) == (ids < rows)).all())
