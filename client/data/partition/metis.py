"""Parts of nearly equal size with few edges between them."""

from __future__ import annotations

import numpy as np
import pymetis
from scipy.sparse import coo_array

from fedtag.client.data.text_graph import Rows, TextGraph
from fedtag.common.errors import DataError

WEIGHT_STEPS = 1000


def by_cut(graph: TextGraph, clients: int, seed: int) -> tuple[Rows, ...]:
    """The k-way partition of METIS (Karypis and Kumar 1998), edges counted in both directions.

    Weights become whole numbers from 1 to 1000, as METIS wants them.

    Raises:
        DataError: if METIS leaves a client without a node.
    """
    n = graph.num_nodes
    source, target = graph.edges.T
    both = coo_array(
        (np.tile(graph.edge_weights, 2), (np.r_[source, target], np.r_[target, source])), shape=(n, n)
    ).tocsr()
    both.sort_indices()
    weights = None
    if both.nnz and both.data.min() != both.data.max():
        scaled = both.data / both.data.max() * WEIGHT_STEPS
        weights = np.maximum(1, np.rint(scaled)).astype(np.int64)
    _, parts = pymetis.part_graph(
        clients,
        adjacency=pymetis.CSRAdjacency(both.indptr.tolist(), both.indices.tolist()),
        eweights=None if weights is None else weights.tolist(),
        options=pymetis.Options(seed=seed % 2**31),
    )
    member = np.asarray(parts)
    rows = tuple(np.flatnonzero(member == client) for client in range(clients))
    empty = sum(not len(part) for part in rows)
    if empty:
        raise DataError(
            f"METIS leaves {empty} of {clients} clients without a node of {graph.name!r}; "
            "ask for fewer clients or partition at random."
        )
    return rows
