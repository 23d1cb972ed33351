"""Client weights: how much each contribution counts."""

from __future__ import annotations

from collections.abc import Mapping


def client_weights(kind: str, train_nodes: Mapping[str, int]) -> dict[str, float]:
    """Weights that sum to 1, in the order of names.

    Args:
        kind: `samples` (in proportion to training nodes, McMahan et al., 2017) or `uniform`.
        train_nodes: training nodes of each contributing client, at least 0.

    Returns:
        A weight for each client that has a training node; nothing if none has.
    """
    contributors = {client: count for client, count in sorted(train_nodes.items()) if count > 0}
    if kind == "uniform":
        return {client: 1 / len(contributors) for client in contributors}
    total = sum(contributors.values())
    return {client: count / total for client, count in contributors.items()}
