"""Clients with alike condensed nodes (FedC4, Eq. 12 and Alg. 2).

Norms are scalars, so that the sliced distance of Eq. 12 is the one-dimensional Wasserstein distance; as printed it
would compare means only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.stats import wasserstein_distance

from client.condense.collaboration.embedding import Portrait, common_scale


def distances(portraits: Mapping[str, Portrait]) -> NDArray[np.float64]:
    """W1 between the scaled norms of every two clients, in the order of their names; symmetric, 0 on the diagonal."""
    scale = common_scale(portraits)
    norms = [scale.normed(portraits[name].norms).double().cpu().numpy() for name in sorted(portraits)]
    table = np.zeros((len(norms), len(norms)))
    for row in range(len(norms)):
        for column in range(row):
            table[row, column] = table[column, row] = wasserstein_distance(norms[row], norms[column])
    return table


def clustered(
    portraits: Mapping[str, Portrait], *, cut: float = 0.5, number: int = 0
) -> tuple[tuple[str, ...], ...]:
    """Clusters of clients by average linkage; every client computes the same from the same portraits.

    Args:
        portraits: of at least one client.
        cut: share of the largest distance, in [0, 1], beyond which clusters do not merge.
        number: of clusters; 0: as many as the cut leaves.

    Returns:
        The names in each cluster, sorted, clusters by their first name.
    """
    names = sorted(portraits)
    if len(names) == 1:
        return (tuple(names),)
    table = distances(portraits)
    tree = linkage(squareform(table, checks=False), "average")
    height, criterion = (number, "maxclust") if number else (cut * float(table.max()), "distance")
    labels = fcluster(tree, height, criterion)
    groups: dict[int, list[str]] = {}
    for name, label in zip(names, labels, strict=True):
        groups.setdefault(int(label), []).append(name)
    return tuple(sorted(tuple(group) for group in groups.values()))


def refined(before: Sequence[Sequence[str]], now: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Clusters of which each lies within one of before and within one of now: between full exchanges a client
    hears from its own cluster alone, so that clusters can split but not merge."""
    pieces = (tuple(sorted(set(old) & set(new))) for old in before for new in now)
    return tuple(sorted(piece for piece in pieces if piece))
