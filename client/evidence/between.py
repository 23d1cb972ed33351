"""Nodes that lie between a node and a neighbour of a neighbour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from fedtag.client.evidence.packs import EvidencePack, NodeId

NAMED = 3
"""As many nodes between are named to a reader."""
PASSED = 12
"""As many nodes that a selection passed over are named."""

Passed = tuple[int, tuple[NodeId, ...]]
"""How many nodes, and the first of them."""


class Between:
    """Through which nodes the second neighbours of a pack are reached.

    Args:
        node_ids: the institution's nodes.
        edges: undirected pairs of their places, shape [edges, 2]; None if they are not known.
    """

    def __init__(self, node_ids: Sequence[NodeId], edges: Int[np.ndarray, "edges 2"] | None) -> None:
        pairs = np.zeros((0, 2), np.int64) if edges is None else np.asarray(edges).reshape(-1, 2)
        both = np.concatenate([pairs, pairs[:, ::-1]])
        both = both[np.argsort(both[:, 0], kind="stable")]
        self._node_ids = node_ids
        self._places = {node: place for place, node in enumerate(node_ids)}
        self._begins = np.searchsorted(both[:, 0], np.arange(len(node_ids) + 1))
        self._adjacent = both[:, 1]

    def nodes(self, pack: EvidencePack, node: NodeId) -> tuple[NodeId, ...]:
        """The common neighbours of the pack's node and a node at hop 2, selected ones first; else none."""
        hops = {neighbour.node: neighbour.hop for neighbour in pack.neighbours}
        if hops.get(node) != 2 or pack.node not in self._places or node not in self._places:
            return ()
        common = np.intersect1d(self._around(pack.node), self._around(node))
        found = [self._node_ids[place] for place in common.tolist()]
        return tuple(sorted(found, key=lambda one: hops.get(one) != 1))

    def passed_over(self, pack: EvidencePack, most: int = PASSED) -> tuple[Passed, Passed]:
        """How many nodes at hop 1 and 2 the selection did not take, and the first of them.

        Args:
            most: as many are named.
        """
        if pack.node not in self._places:
            return (0, ()), (0, ())
        taken = {neighbour.node for neighbour in pack.neighbours}
        own = self._places[pack.node]
        near = np.unique(self._around(pack.node))
        reached = [self._adjacent[self._begins[place] : self._begins[place + 1]] for place in near.tolist()]
        far = np.setdiff1d(np.concatenate([*reached, near[:0]]), np.append(near, own))
        return self._left(near[near != own], taken, most), self._left(far, taken, most)

    def _left(self, places: Int[np.ndarray, " some"], taken: set[NodeId], most: int) -> Passed:
        left = [self._node_ids[place] for place in places.tolist() if self._node_ids[place] not in taken]
        return len(left), tuple(left[:most])

    def _around(self, node: NodeId) -> Int[np.ndarray, " around"]:
        place = self._places[node]
        return self._adjacent[self._begins[place] : self._begins[place + 1]]


def named(nodes: Sequence[NodeId]) -> str:
    """The nodes in words, such as `through 142, 7`; empty without any."""
    if not nodes:
        return ""
    rest = f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
    return f"through {', '.join(map(str, nodes[:NAMED]))}{rest}"
