"""Clients with alike condensed nodes (FedC4, Eq. 12 and Alg. 2).

Norms are scalars, so that the sliced distance of Eq. 12 is the one-dimensional Wasserstein distance; as printed it
would compare means only. With projections it is the mean of that distance over the directions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.stats import wasserstein_distance

from fedtag.client.methods.fedc4.collaboration.embedding import Portrait, common_scale


def distances(portraits: Mapping[str, Portrait]) -> NDArray[np.float64]:
    """W1 between every two clients, in the order of their names; symmetric, 0 on the diagonal."""
    scale = common_scale(portraits)
    spectra = [scale.placed(portraits[name].spectrum).double().cpu().numpy() for name in sorted(portraits)]
    table = np.zeros((len(spectra), len(spectra)))
    for row in range(len(spectra)):
        for column in range(row):
            lines = zip(spectra[row], spectra[column], strict=True)
            between = float(np.mean([wasserstein_distance(one, other) for one, other in lines]))
            table[row, column] = table[column, row] = between
    return table


def merging_height(portraits: Mapping[str, Portrait], cut: float) -> float:
    """The distance beyond which clusters do not merge: a share, in [0, 1], of the largest one between two clients."""
    return cut * float(distances(portraits).max())


def clustered(
    portraits: Mapping[str, Portrait], *, height: float = 0.0, number: int = 0
) -> tuple[tuple[str, ...], ...]:
    """Clusters of clients by average linkage; every client computes the same from the same portraits.

    Args:
        portraits: of at least one client.
        height: distance, >= 0, beyond which clusters do not merge.
        number: of clusters, in place of a height; 0: by height.

    Returns:
        The names in each cluster, sorted, clusters by their first name.
    """
    names = sorted(portraits)
    if len(names) == 1:
        return (tuple(names),)
    tree = linkage(squareform(distances(portraits), checks=False), "average")
    labels = fcluster(tree, number, "maxclust") if number else fcluster(tree, height, "distance")
    groups: dict[int, list[str]] = {}
    for name, label in zip(names, labels, strict=True):
        groups.setdefault(int(label), []).append(name)
    return tuple(sorted(tuple(group) for group in groups.values()))
