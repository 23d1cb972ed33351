"""Clients that see different classes, as skewed as one likes."""

from __future__ import annotations

import numpy as np

from fedtag.client.data.text_graph import Rows, TextGraph
from fedtag.common.errors import ConfigError
from fedtag.common.randomness import numpy_generator


def by_labels(graph: TextGraph, clients: int, seed: int, alpha: float) -> tuple[Rows, ...]:
    """Label skew after Hsu et al. (2019): each class is divided in proportions drawn from Dir(alpha).

    Unlabelled nodes are spread uniformly. A client that would have no node gets one of the largest
    client's.

    Args:
        graph: the whole graph.
        clients: at least 1, at most the number of nodes.
        seed: of the run.
        alpha: concentration, > 0; towards 0 each class goes to one client, towards infinity to all alike.
    """
    if not (np.isfinite(alpha) and alpha > 0):
        raise ConfigError(f"alpha is {alpha}; give a number above 0, e.g. 1 (0.1 is very skewed).")
    generator = numpy_generator(seed, "partition", "dirichlet")
    owner = np.zeros(graph.num_nodes, np.int64)
    for label in range(len(graph.classes)):
        members = generator.permutation(np.flatnonzero(graph.labels == label))
        shares = generator.dirichlet(np.full(clients, alpha))
        if not np.isfinite(shares).all():
            # So small an alpha underflows; its limit is one client for the whole class.
            shares = np.eye(clients)[generator.integers(clients)]
        cuts = np.floor(np.cumsum(shares)[:-1] * len(members) + 0.5).astype(np.int64)
        owner[members] = np.searchsorted(cuts, np.arange(len(members)), side="right")
    unlabelled = generator.permutation(np.flatnonzero(graph.labels < 0))
    owner[unlabelled] = np.arange(len(unlabelled)) % clients
    sizes = np.bincount(owner, minlength=clients)
    for client in np.flatnonzero(sizes == 0):
        largest = int(sizes.argmax())
        owner[generator.choice(np.flatnonzero(owner == largest))] = client
        sizes[largest] -= 1
        sizes[client] = 1
    return tuple(np.flatnonzero(owner == client) for client in range(clients))
