"""Proof that evidence is the institution's own, word for word, and within its budgets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from fedtag.client.evidence.pack_table import PackTable
from fedtag.client.evidence.packs import EvidencePack, NodeId, SelectedChunk
from fedtag.client.evidence.source_texts import KnownLabels, SourceTexts
from fedtag.client.evidence.suspects import TOLERANCE, suspects

HOP_BUDGETS = (1, 3, 2)
CHUNK_BUDGET = 4


@dataclass(frozen=True)
class Budgets:
    """How much evidence a node may have: neighbours at hop 0, 1, 2 and chunks."""

    hops: tuple[int, ...] = HOP_BUDGETS
    chunks: int = CHUNK_BUDGET


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`.

    Args:
        checked: number of packs.
        violations: one sentence each; empty if every pack holds.
        by_pack: those of single packs, by their place.
    """

    checked: int
    violations: tuple[str, ...]
    by_pack: Mapping[int, Sequence[str]] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether there was no violation."""
        return not self.violations


def chunk_violation(pack: EvidencePack, chunk: SelectedChunk, sources: SourceTexts) -> str | None:
    """What is wrong with one chunk, as the end of a sentence; None if it is literal.

    Only the first fault is named: offsets into a text that has changed say nothing.
    """
    text = sources.text(chunk.node)
    if text is None:
        return f"comes from node {chunk.node!r}, which is not in the folder"
    if all(neighbour.node != chunk.node for neighbour in pack.neighbours):
        return f"comes from node {chunk.node!r}, which is not among the selected neighbours"
    if sources.digest(chunk.node) != chunk.sha256:
        return f"was taken from a text of node {chunk.node!r} with another SHA-256 than the present one"
    if not 0 <= chunk.start <= chunk.end <= len(text):
        return f"lies outside the {len(text)} characters of the text of node {chunk.node!r}"
    # What was selected of an empty text, whose features were given, has no words.
    if chunk.start == chunk.end and text:
        return f"is empty in the text of node {chunk.node!r}"
    return None


def pack_violations(
    pack: EvidencePack,
    sources: SourceTexts,
    hop_budgets: Sequence[int] = HOP_BUDGETS,
    chunk_budget: int = CHUNK_BUDGET,
) -> list[str]:
    """Every rule that one pack breaks, one sentence each; arguments as in `verify`."""
    subject = f"node {pack.node!r}, round {pack.round}"
    found = _statement_violations(pack, sources, subject)
    if pack.node not in sources:
        found.append(f"{subject}: the node is not in the folder")
    found += _selection_violations(pack, sources, hop_budgets, chunk_budget, subject)
    by_hop: dict[int, list[float]] = {}
    for neighbour in pack.neighbours:
        by_hop.setdefault(neighbour.hop, []).append(neighbour.weight)
        if neighbour.node not in sources:
            found.append(f"{subject}: the selected neighbour {neighbour.node!r} is not in the folder")
        if neighbour.hop == 0 and neighbour.node != pack.node:
            found.append(f"{subject}: hop 0 names node {neighbour.node!r} in place of the node itself")
    for hop, weights in sorted(by_hop.items()):
        budget = hop_budgets[hop] if 0 <= hop < len(hop_budgets) else 0
        if len(weights) > budget:
            found.append(
                f"{subject}: the budget at hop {hop} is {budget}, but the pack has {len(weights)} there"
            )
        found += _weight_violations(f"{subject}: the weights at hop {hop}", weights)
    for chunk in pack.chunks:
        fault = chunk_violation(pack, chunk, sources)
        if fault is not None:
            found.append(f"{subject}: the chunk [{chunk.start}:{chunk.end}] {fault}")
    if len(pack.chunks) > chunk_budget:
        found.append(
            f"{subject}: the budget of chunks is {chunk_budget}, but the pack has {len(pack.chunks)}"
        )
    found += _weight_violations(
        f"{subject}: the weights of the chunks", [chunk.weight for chunk in pack.chunks]
    )
    return found


def verify(
    packs: Sequence[EvidencePack],
    node_ids: Sequence[NodeId],
    texts: Sequence[str],
    hop_budgets: Sequence[int] = HOP_BUDGETS,
    chunk_budget: int = CHUNK_BUDGET,
    known: KnownLabels | None = None,
) -> Verification:
    """Check packs against the institution's own texts.

    Each chunk's source exists, is one of the pack's selected neighbours, has the recorded SHA-256, and
    holds the span; weights are non-negative and sum to 1 (within 1e-4) per hop and over the chunks,
    where there are any; budgets hold. The node itself is selected, once and at hop 0, nothing twice, and a span
    wherever a selected node has words. The share of the evidence is in [0, 1].

    Args:
        packs: of any rounds.
        node_ids, texts: the institution's nodes, in the same order.
        hop_budgets: most neighbours at hop 0, 1, 2, ...; further hops have none.
        chunk_budget: most chunks in a pack.
        known: where given, a prediction is one of the classes and a label is the node's own.
    """
    sources = SourceTexts(node_ids, texts, known)
    read: Iterable[int] = range(len(packs))
    if isinstance(packs, PackTable):
        read = np.flatnonzero(suspects(packs, sources, hop_budgets, chunk_budget)).tolist()
    found = {row: pack_violations(packs[row], sources, hop_budgets, chunk_budget) for row in read}
    by_pack = {row: sentences for row, sentences in found.items() if sentences}
    return Verification(len(packs), tuple(chain.from_iterable(by_pack.values())), by_pack)


def _statement_violations(pack: EvidencePack, sources: SourceTexts, subject: str) -> list[str]:
    """What is wrong with what is said of the prediction and the node."""
    found = []
    if pack.evidence_share is not None and not 0 <= pack.evidence_share <= 1:
        found.append(
            f"{subject}: the share of the evidence is {pack.evidence_share:g}, but it lies in [0, 1]"
        )
    if sources.known is None:
        return found
    if pack.prediction not in sources.known.classes:
        found.append(f"{subject}: the prediction {pack.prediction!r} is no class of the folder")
    if pack.node in sources and pack.label != sources.label(pack.node):
        found.append(
            f"{subject}: the label is {pack.label!r}, but {sources.label(pack.node)!r} in the folder"
        )
    return found


def _selection_violations(
    pack: EvidencePack,
    sources: SourceTexts,
    hop_budgets: Sequence[int],
    chunk_budget: int,
    subject: str,
) -> list[str]:
    """What was selected twice, in the wrong place, or not although there is something to select."""
    found = []
    if hop_budgets and hop_budgets[0] and all(near.hop != 0 for near in pack.neighbours):
        found.append(f"{subject}: the node itself is not selected at hop 0")
    words = any((sources.text(near.node) or "").strip() for near in pack.neighbours)
    if chunk_budget and words and not pack.chunks:
        found.append(f"{subject}: no chunk is selected, although the selected nodes have text")
    astray = [near for near in pack.neighbours if near.node == pack.node and near.hop != 0]
    found += [f"{subject}: the node itself stands at hop {near.hop}" for near in astray]
    times = Counter(near.node for near in pack.neighbours if near not in astray)
    found += [f"{subject}: {node!r} is selected {count} times" for node, count in times.items() if count > 1]
    spans = Counter((chunk.node, chunk.start, chunk.end) for chunk in pack.chunks)
    return found + [
        f"{subject}: the chunk [{start}:{end}] of node {node!r} is selected {count} times"
        for (node, start, end), count in spans.items()
        if count > 1
    ]


def _weight_violations(subject: str, weights: Sequence[float]) -> list[str]:
    if not weights:
        return []
    unusable = [weight for weight in weights if not (math.isfinite(weight) and weight >= 0)]
    if unusable:
        return [f"{subject} include {unusable[0]:.6g}, but a weight is finite and not negative"]
    total = math.fsum(weights)
    if abs(total - 1) > TOLERANCE:
        return [f"{subject} sum to {total:.6g}, not to 1"]
    return []
