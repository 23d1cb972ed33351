"""Whole communities, balanced over the clients."""

from __future__ import annotations

import heapq

import networkx as nx
import numpy as np

from fedtag.client.data.text_graph import Rows, TextGraph
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural


def by_communities(graph: TextGraph, clients: int, seed: int) -> tuple[Rows, ...]:
    """Louvain communities (Blondel et al. 2008; resolution 1), each given whole to one client.

    The largest community comes first (of equal ones, that with the smallest node id) and goes to the
    client with the fewest nodes (of equal ones, the first). Edges count in both directions.

    Raises:
        DataError: if there are fewer communities than clients, so that one would have no node.
    """
    network = nx.Graph()
    network.add_nodes_from(range(graph.num_nodes))
    real = graph.edge_weights > 0
    ends, weights = graph.edges[real], graph.edge_weights[real].astype(float)
    # networkx goes through neighbours in the order of insertion; a directed pair keeps its larger weight.
    order = np.argsort(weights, kind="stable")
    network.add_weighted_edges_from(zip(*ends[order].T.tolist(), weights[order].tolist(), strict=True))
    communities = [
        sorted(members) for members in nx.community.louvain_communities(network, resolution=1, seed=seed)
    ]
    if len(communities) < clients:
        raise DataError(
            f"Louvain finds {plural(len(communities), 'community')} in {graph.name!r}, too few for {clients} clients; "
            f"ask for at most {plural(len(communities), 'client')}, or partition by metis or random."
        )
    ids = graph.node_ids
    by_size = sorted(communities, key=lambda rows: (-len(rows), min(ids[row] for row in rows)))
    smallest = [(0, client) for client in range(clients)]
    assigned: list[list[int]] = [[] for _ in range(clients)]
    for community in by_size:
        size, client = heapq.heappop(smallest)
        assigned[client].extend(community)
        heapq.heappush(smallest, (size + len(community), client))
    return tuple(np.array(sorted(rows), np.int64) for rows in assigned)
