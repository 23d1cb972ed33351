"""What an institution's folder says of its nodes: texts with their digests, and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from fedtag.client.evidence.packs import NodeId, text_digest


@dataclass(frozen=True)
class KnownLabels:
    """The classes of a federation, and what an institution knows of them.

    Args:
        classes: their names.
        labels: of its nodes, in their order: positions into `classes`, -1 where unknown.
    """

    classes: Sequence[str]
    labels: Int[np.ndarray, " nodes"]


class SourceTexts:
    """The institution's texts by node identifier; digests are computed once, when first asked for.

    Args:
        node_ids, texts: its nodes, in the same order.
        known: their labels; None where evidence is not compared with them.
    """

    def __init__(
        self, node_ids: Sequence[NodeId], texts: Sequence[str], known: KnownLabels | None = None
    ) -> None:
        if len(node_ids) != len(texts):
            raise ValueError(f"{len(node_ids)} nodes have {len(texts)} texts: give one text a node")
        self.known = known
        self._places = {node: place for place, node in enumerate(node_ids)}
        self._texts = texts
        self._digests: dict[NodeId, str] = {}

    def __contains__(self, node: NodeId) -> bool:
        return node in self._places

    def place(self, node: NodeId) -> int:
        """The node's position; -1 for an unknown node."""
        return self._places.get(node, -1)

    def text(self, node: NodeId) -> str | None:
        """The node's text; None for an unknown node."""
        place = self._places.get(node)
        return None if place is None else self._texts[place]

    def digest(self, node: NodeId) -> str:
        """SHA-256 of a known node's text."""
        if node not in self._digests:
            self._digests[node] = text_digest(self._texts[self._places[node]])
        return self._digests[node]

    def label(self, node: NodeId) -> str | None:
        """The label of a known node, None where it has none; only where labels are known."""
        assert self.known is not None
        code = int(self.known.labels[self._places[node]])
        return None if code < 0 else self.known.classes[code]
