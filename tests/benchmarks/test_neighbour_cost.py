"""What a boundary node costs in FedGC's exchange of neighbour sums: bytes, and time of all who are concerned.

Rows are as wide as those of Cora and CiteSeer, and as sparse; four institutions have neighbours of each node.
"""

from __future__ import annotations

import time
from itertools import combinations, pairwise
from os import urandom

import numpy as np
import pytest

from fedtag.common.parts.neighbour_exchange import homomorphic, masked_parts
from fedtag.common.secure.fixed_point import FixedPoint

pytestmark = pytest.mark.benchmark

OWNERS, NODES = 4, 20
FIXED = FixedPoint(40, 16384.0)


def sparse(dimension: int) -> list[np.ndarray]:
    """What each owner adds for all nodes: rows of which about one in fifty entries is not zero."""
    rng = np.random.default_rng(dimension)
    shape = (NODES, dimension + 1)
    return [(rng.random(shape) < 0.02) * rng.uniform(0.1, 1, shape) for _ in range(OWNERS)]


def under_masks(values: list[np.ndarray]) -> tuple[list[bytes], bytes, np.ndarray, list[float]]:
    pairs = {pair: urandom(32) for pair in combinations(range(OWNERS), 2)}
    own = [urandom(32) for _ in range(OWNERS)]
    clock = [time.perf_counter()]
    parts = []
    for owner in range(OWNERS):
        plus = [key for (low, _), key in pairs.items() if low == owner]
        minus = [key for (_, high), key in pairs.items() if high == owner]
        parts.append(masked_parts.masked_part(values[owner].ravel(), FIXED, [*plus, own[owner]], minus))
    clock.append(time.perf_counter())
    total = masked_parts.added(parts)
    clock.append(time.perf_counter())
    found = masked_parts.opened(total, values[0].size, FIXED, own)
    clock.append(time.perf_counter())
    return parts, total, found, clock


def homomorphically(values: list[np.ndarray]) -> tuple[list[bytes], bytes, np.ndarray, list[float]]:
    holder = homomorphic.Holder(homomorphic.fresh_key())
    clock = [time.perf_counter()]
    parts = [holder.enciphered(one.ravel()) for one in values]
    clock.append(time.perf_counter())
    total = homomorphic.added(parts)
    clock.append(time.perf_counter())
    found = holder.deciphered(total, values[0].size)
    clock.append(time.perf_counter())
    return parts, total, found, clock


@pytest.mark.parametrize("dimension", [1433, 3703])
@pytest.mark.parametrize("way", ["summed", "encrypted"])
def test_what_a_boundary_node_costs(way: str, dimension: int) -> None:
    if way == "encrypted":
        pytest.importorskip("tenseal", reason="the extra he (TenSEAL) is not installed")
    values = sparse(dimension)
    parts, total, found, clock = (under_masks if way == "summed" else homomorphically)(values)
    np.testing.assert_allclose(found, sum(values).ravel(), rtol=1e-3, atol=1e-6)
    up, down = sum(map(len, parts)) / NODES, len(total) / NODES
    owner, server, recipient = (1e3 * (end - start) / NODES for start, end in pairwise(clock))
    print(f"\n{way}, {dimension} features, {OWNERS} owners, a boundary node")  # noqa: T201
    print(f"  kB from each owner {up / OWNERS / 1e3:8.1f}, to the institution {down / 1e3:8.1f}")  # noqa: T201
    print(f"  ms at each owner {owner / OWNERS:8.2f}, server {server:8.2f}, institution {recipient:8.2f}")  # noqa: T201
    # A ciphertext has 32 bytes a number, a masked part 8.
    assert up / OWNERS / (dimension + 1) < (9 if way == "summed" else 40)
