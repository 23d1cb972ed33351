"""The table of partitioners, and the one function that applies them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedtag.client.data.partition.dirichlet import by_labels
from fedtag.client.data.partition.louvain import by_communities
from fedtag.client.data.partition.metis import by_cut
from fedtag.client.data.partition.published import read_published
from fedtag.client.data.partition.uniform import at_random
from fedtag.client.data.text_graph import Rows, TextGraph
from fedtag.common.errors import ConfigError, DataError
from fedtag.common.wording.counts import plural

PARTITIONERS = ("louvain", "metis", "random", "dirichlet")


def partition(
    graph: TextGraph,
    kind: str | Path,
    clients: int | None,
    seed: int,
    *,
    alpha: float = 1.0,
    ids_column: str | None = None,
) -> tuple[Rows, ...]:
    """The rows of each client, sorted; every node is in exactly one of them and no client is empty.

    Args:
        graph: the whole graph.
        kind: louvain, metis, random, dirichlet, or the path of a published partition (.json, .npz).
        clients: how many, at least 1; None takes the number from a published partition.
        seed: of the run.
        alpha: concentration of `dirichlet`, > 0: small values give a client few classes.
        ids_column: extra column of the nodes whose ids a published partition uses.

    Raises:
        ConfigError: if the kind is unknown or the number of clients does not fit it.
        DataError: if the graph cannot be divided so.
    """
    if str(kind) not in PARTITIONERS:
        if not Path(kind).is_file():
            raise ConfigError(
                f"partition is {str(kind)!r}; use {', '.join(PARTITIONERS)}, or the path of a partition file."
            )
        rows = read_published(Path(kind), graph, ids_column).rows
        if clients is not None and clients != len(rows):
            raise ConfigError(
                f"{Path(kind).name} divides the graph over {plural(len(rows), 'client')}, not {clients}."
            )
        return rows
    if clients is None or clients < 1:
        raise ConfigError(f"clients is {clients}; give at least 1.")
    if clients > graph.num_nodes:
        raise DataError(
            f"{graph.name!r} has {plural(graph.num_nodes, 'node')}, which cannot be divided over {clients} clients; "
            "ask for fewer clients."
        )
    if clients == 1:
        return (np.arange(graph.num_nodes),)
    if kind == "louvain":
        return by_communities(graph, clients, seed)
    if kind == "metis":
        return by_cut(graph, clients, seed)
    if kind == "random":
        return at_random(graph, clients, seed)
    return by_labels(graph, clients, seed, alpha)
