"""An institution's texts by node, with their digests."""

from __future__ import annotations

from collections.abc import Sequence

from fedtag.client.evidence.packs import NodeId, text_digest


class SourceTexts:
    """The institution's texts by node identifier; digests are computed once, when first asked for."""

    def __init__(self, node_ids: Sequence[NodeId], texts: Sequence[str]) -> None:
        self._texts: dict[NodeId, str] = dict(zip(node_ids, texts, strict=True))
        self._digests: dict[NodeId, str] = {}

    def __contains__(self, node: NodeId) -> bool:
        return node in self._texts

    def text(self, node: NodeId) -> str | None:
        """The node's text; None for an unknown node."""
        return self._texts.get(node)

    def digest(self, node: NodeId) -> str:
        """SHA-256 of a known node's text."""
        if node not in self._digests:
            self._digests[node] = text_digest(self._texts[node])
        return self._digests[node]
