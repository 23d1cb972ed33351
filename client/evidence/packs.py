"""Evidence packs: what a prediction rested on, kept on the institution's disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from fedtag.client.evidence.account import Account
from fedtag.client.text.citations import rendered

NodeId = str | int
Kind = Literal["core", "scored"]

_HOP_NAMES = ("the node itself", "neighbour", "neighbour of a neighbour")


@dataclass(frozen=True, slots=True)
class SelectedNeighbour:
    """A node whose text was allowed to speak for the pack's node.

    Args:
        node: its identifier in the institution's folder.
        hop: distance from the pack's node; 0 is the node itself.
        weight: share within its hop, in [0, 1].
    """

    node: NodeId
    hop: int
    weight: float


@dataclass(frozen=True, slots=True)
class SelectedChunk:
    """A literal span, `text[start:end]` in characters, of a selected neighbour's text.

    Args:
        node: the source node.
        start, end: character offsets into the source node's text.
        weight: share among the chunks of the pack, in [0, 1].
        sha256: hex digest of the source node's whole text, see `text_digest`.
    """

    node: NodeId
    start: int
    end: int
    weight: float
    sha256: str


@dataclass(frozen=True, slots=True)
class EvidencePack:
    """The evidence of one node in one round.

    Args:
        node: its identifier.
        kind: "core" if the node was trained on, "scored" if it was only predicted.
        round: the round whose received model selected the evidence.
        model: hash of that model.
        prediction: class name.
        confidence: probability of the predicted class, in [0, 1].
        neighbours: selected neighbours, the node itself at hop 0.
        chunks: selected spans of their texts.
        account: the on-device language model's summary of the chunks, if it was asked.
        evidence_share: part of the score that came through the evidence, in [0, 1].
        label: the local truth where it is known; like the pack, it never leaves the institution.
    """

    node: NodeId
    kind: Kind
    round: int
    model: str
    prediction: str
    confidence: float
    neighbours: tuple[SelectedNeighbour, ...]
    chunks: tuple[SelectedChunk, ...]
    account: Account | None = None
    evidence_share: float | None = None
    label: str | None = None

    @property
    def summary(self) -> str | None:
        """The account as a text with citations [n] and a remark after each unsupported sentence."""
        return None if self.account is None else rendered(self.account.sentences)


def hop_name(hop: int) -> str:
    """How a reader calls a hop."""
    return _HOP_NAMES[hop] if 0 <= hop < len(_HOP_NAMES) else f"{hop} hops away"


def shown_weight(weight: float) -> str:
    """A weight to three decimals; one that was selected never reads as nothing."""
    return f"{weight:.3f}" if weight >= 0.0005 else "< 0.001"


def text_digest(text: str) -> str:
    """SHA-256 (hex) of a text's UTF-8 bytes; lone surrogates, which UTF-8 has no form for, pass through."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
