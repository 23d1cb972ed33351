from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.methods.fedc4.collaboration.clusters import clustered, distances, merging_height
from fedtag.client.methods.fedc4.collaboration.embedding import Portrait, common_scale


def portraits(*norms: list[float]) -> dict[str, Portrait]:
    return {f"c{i}": Portrait(torch.zeros(2), torch.tensor([sorted(one)])) for i, one in enumerate(norms)}


def test_the_distance_is_the_area_between_the_distribution_functions() -> None:
    """W1 on the line as the integral of |F - G| over a fine grid, for unequal sizes."""
    two = portraits([0.0, 1.0, 4.0], [2.0, 2.5])
    scale = common_scale(two)
    grid = np.linspace(-10, 10, 400_001)
    functions = [
        (scale.placed(two[name].spectrum)[0].numpy()[:, None] <= grid[None, ::100]).mean(0)
        for name in ("c0", "c1")
    ]
    area = np.abs(functions[0] - functions[1]).sum() * (grid[100] - grid[0])
    found = distances(two)
    np.testing.assert_allclose(found[0, 1], area, rtol=5e-3)
    assert found[0, 0] == 0
    assert found[0, 1] == found[1, 0]


def test_alike_clients_share_a_cluster() -> None:
    four = portraits([1.0, 1.1], [5.0, 5.1, 5.2], [1.05, 1.0], [5.1])
    assert clustered(four, height=merging_height(four, 0.5)) == (("c0", "c2"), ("c1", "c3"))
    assert clustered(four, number=2) == (("c0", "c2"), ("c1", "c3"))
    assert merging_height(four, 0.5) == distances(four).max() / 2
    assert clustered(four, number=1) == (("c0", "c1", "c2", "c3"),)
    assert clustered(four, height=merging_height(four, 1.0)) == (("c0", "c1", "c2", "c3"),)
    assert clustered(four) == (("c0",), ("c1",), ("c2",), ("c3",))
    assert clustered(portraits([1.0])) == (("c0",),)
    assert clustered(portraits([1.0], [1.0])) == (("c0", "c1"),)


@given(
    st.lists(st.lists(st.floats(0, 10, width=32), min_size=1, max_size=4), min_size=1, max_size=6),
    st.randoms(),
)
def test_every_client_finds_the_same_clusters(norms: list[list[float]], order: object) -> None:
    first = portraits(*norms)
    names = list(first)
    order.shuffle(names)  # type: ignore[attr-defined]
    shuffled = {name: first[name] for name in names}
    height = merging_height(first, 0.5)
    assert merging_height(shuffled, 0.5) == height
    clusters = clustered(shuffled, height=height)
    assert clusters == clustered(first, height=height)
    assert sorted(name for cluster in clusters for name in cluster) == sorted(first)


def test_the_sliced_distance_is_the_mean_over_directions() -> None:
    lines = {"a": [[0.0, 1.0], [5.0, 6.0]], "b": [[2.0, 3.0], [5.0, 6.0]]}
    two = {name: Portrait(torch.zeros(2), torch.tensor(rows)) for name, rows in lines.items()}
    spread = np.std(np.array(list(lines.values())))
    np.testing.assert_allclose(distances(two)[0, 1], (2.0 + 0.0) / 2 / spread, rtol=1e-5)
