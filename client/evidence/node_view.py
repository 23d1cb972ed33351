"""One node of the audit page: its spans, the neighbours they come from, their texts in pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtag.client.evidence.between import Between
from fedtag.client.evidence.highlight import pieces
from fedtag.client.evidence.measured import NodeFaithfulness
from fedtag.client.evidence.packs import EvidencePack, NodeId, SelectedChunk, SelectedNeighbour, hop_name
from fedtag.client.evidence.verification import SourceTexts, chunk_violation

_SNIPPET = 100
_QUOTE = 1200
_ORIGINS = ("the node's own text", "a neighbour", "a neighbour of a neighbour")


@dataclass(frozen=True)
class _Span:
    number: int  # 1 is the strongest
    chunk: SelectedChunk
    origin: str
    through: tuple[NodeId, ...]
    fault: str | None
    quote: str
    cut: int  # characters of the quote that are not shown


@dataclass(frozen=True)
class _Source:
    node: NodeId
    origin: str
    found: bool
    size: int
    spans: list[_Span]
    pieces: list[dict[str, Any]]


@dataclass(frozen=True)
class _Neighbour:
    entry: SelectedNeighbour
    origin: str
    through: tuple[NodeId, ...]
    snippet: str
    spans: list[_Span]


def node_view(
    index: int,
    pack: EvidencePack,
    faults: Sequence[str],
    sources: SourceTexts,
    between: Between,
    split: str | None,
    measured: NodeFaithfulness | None,
) -> dict[str, Any]:
    """What the template shows of one node.

    Args:
        index: its place on the page, from 1.
        faults: what verification found.
        split: train, val, test or none, where it is known.
        measured: what masking its texts did, where that was measured.
    """
    hops = {neighbour.node: neighbour.hop for neighbour in reversed(pack.neighbours)}
    origins = {node: hop_name(hop) for node, hop in hops.items()}
    ranked = sorted(pack.chunks, key=lambda chunk: -chunk.weight)
    spans = [
        _span(number, chunk, pack, origins, sources, between) for number, chunk in enumerate(ranked, start=1)
    ]
    by_node: dict[NodeId, list[_Span]] = {}
    for span in spans:
        by_node.setdefault(span.chunk.node, []).append(span)
    return {
        "anchor": f"n{index}",
        "pack": pack,
        "split": split,
        "measured": measured,
        "strongest": _strongest(pack, hops),
        "faults": faults,
        "right": None if pack.label is None else pack.label == pack.prediction,
        "snippet": _snippet(sources.text(pack.node)),
        "spans": spans,
        "neighbours": [
            _Neighbour(
                entry,
                hop_name(entry.hop),
                between.nodes(pack, entry.node),
                _snippet(sources.text(entry.node)),
                by_node.get(entry.node, []),
            )
            for entry in sorted(pack.neighbours, key=lambda neighbour: (neighbour.hop, -neighbour.weight))
        ],
        "sources": [
            _source(node, origins.get(node, "not selected"), own, sources) for node, own in by_node.items()
        ],
    }


def _strongest(pack: EvidencePack, hops: Mapping[NodeId, int]) -> str:
    """Where the span of the largest weight comes from, in words; empty without one."""
    if not pack.chunks:
        return ""
    hop = hops.get(max(pack.chunks, key=lambda chunk: chunk.weight).node, -1)
    return f"{_ORIGINS[hop]} (hop {hop})" if 0 <= hop < len(_ORIGINS) else "a node that was not selected"


def _span(
    number: int,
    chunk: SelectedChunk,
    pack: EvidencePack,
    origins: Mapping[NodeId, str],
    sources: SourceTexts,
    between: Between,
) -> _Span:
    text = sources.text(chunk.node) or ""
    inside = 0 <= chunk.start <= chunk.end <= len(text)
    quote = text[chunk.start : chunk.end] if inside else ""
    return _Span(
        number=number,
        chunk=chunk,
        origin=origins.get(chunk.node, "not selected"),
        through=between.nodes(pack, chunk.node),
        fault=chunk_violation(pack, chunk, sources),
        quote=quote[:_QUOTE],
        cut=max(len(quote) - _QUOTE, 0),
    )


def _source(node: NodeId, origin: str, spans: list[_Span], sources: SourceTexts) -> _Source:
    text = sources.text(node)
    size = len(text or "")
    # A span outside the text has no place to mark; the list of spans says what is wrong with it.
    usable = [span for span in spans if 0 <= span.chunk.start < span.chunk.end <= size]
    parts = pieces(text or "", [(span.chunk.start, span.chunk.end) for span in usable])
    return _Source(
        node=node,
        origin=origin,
        found=text is not None,
        size=size,
        spans=spans,
        pieces=[
            {
                "text": part.text,
                "omitted": part.omitted,
                "spans": [usable[j] for j in part.spans],
                "begins": [usable[j] for j in part.begins],
                "weight": min(sum(max(usable[j].chunk.weight, 0.0) for j in part.spans), 1.0),
            }
            for part in parts
        ],
    )


def _snippet(text: str | None) -> str:
    if text is None:
        return "(not in the folder)"
    words = " ".join(text[: 2 * _SNIPPET].split())
    if not words:
        return "(empty text)"
    return words if len(words) <= _SNIPPET else words[:_SNIPPET].rstrip() + " …"
