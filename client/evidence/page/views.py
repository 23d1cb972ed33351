"""What an audit page shows of single nodes, and how it finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int

from fedtag.client.evidence.between import Between
from fedtag.client.evidence.measured import NodeFaithfulness
from fedtag.client.evidence.packs import EvidencePack, NodeId
from fedtag.client.evidence.page.excerpt import Part, excerpt
from fedtag.client.evidence.verification import Budgets, SourceTexts, chunk_violation, pack_violations
from fedtag.client.text.citations import rendered

FLAGS = {
    name: 1 << bit
    for bit, name in enumerate(("faulty", "measured", "summarised", "foreign", "other-inputs", "unmoved"))
}
"""Bits that say what a node has: violations, a measurement, a summary; no span of its own text; most of its score from
other inputs; a strongest span whose removal did not lower the probability."""
MOST = 50
"""Spans, neighbours and faults of a node that a page shows; a pack within its budgets has fewer."""
BEGINNING = 100  # characters by which a text that is not quoted is told


@dataclass(frozen=True)
class AuditedSite:
    """What an audit page is made of.

    Args:
        title: heading of the page.
        packs: the evidence, of one round as a rule.
        node_ids, texts: the institution's nodes, in the same order.
        budgets: of the run.
        splits: train, val, test or none for each of `node_ids`; empty where they are not known.
        measured: faithfulness of nodes.
        edges: pairs of places in `node_ids`; with them the page draws whom the selection passed over.
    """

    title: str
    packs: Sequence[EvidencePack]
    node_ids: Sequence[NodeId]
    texts: Sequence[str]
    budgets: Budgets = field(default_factory=Budgets)
    splits: Sequence[str] = ()
    measured: Mapping[NodeId, NodeFaithfulness] = field(default_factory=dict)
    edges: Int[np.ndarray, "edges 2"] | None = None


@dataclass(frozen=True)
class Summary:
    """What is said of every node in a list, in the order of the packs.

    Args:
        nodes, predictions, labels, confidences: as the packs have them.
        splits: train, val, test or none; empty where it is not known.
        flags: what each has, see `FLAGS`.
        faults: what verification found of each.
    """

    nodes: list[NodeId] = field(default_factory=list)
    predictions: list[str] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    faults: list[list[str]] = field(default_factory=list)


class Views:
    """Every node of a site, as a page shows it.

    Args:
        site: whose evidence it is; each pack is verified.
    """

    def __init__(self, site: AuditedSite) -> None:
        self.site = site
        self.sources = SourceTexts(site.node_ids, site.texts)
        self.summary = Summary()
        self.rounds, self.models = set[int](), set[str]()
        self._between = Between(site.node_ids, site.edges)
        told, budgets = self.summary, site.budgets
        split_of = dict(zip(site.node_ids, site.splits, strict=True)) if site.splits else {}
        # Packs are made as they are read, so that one pass does.
        for pack in site.packs:
            self.rounds.add(pack.round)
            self.models.add(pack.model)
            told.nodes.append(pack.node)
            told.predictions.append(pack.prediction)
            told.labels.append(pack.label)
            told.confidences.append(pack.confidence)
            told.splits.append(split_of.get(pack.node, ""))
            told.faults.append(pack_violations(pack, self.sources, budgets.hops, budgets.chunks))
            told.flags.append(_flags(pack, told.faults[-1], site.measured.get(pack.node)))

    def view(self, row: int) -> dict[str, Any]:
        """The evidence of a pack's node in plain types; nodes are their identifiers.

        Neighbours stand by hop, spans by weight, the strongest first. A span that does not verify carries why.
        """
        pack = self.site.packs[row]
        measured = self.site.measured.get(pack.node)
        ranked = sorted(pack.chunks, key=lambda chunk: -chunk.weight)
        return {
            "kind": pack.kind,
            "round": pack.round,
            "model": pack.model,
            "share": pack.evidence_share,
            "faults": self.summary.faults[row][:MOST],
            "kept": [
                [near.node, near.hop, near.weight, list(self._between.nodes(pack, near.node))]
                for near in sorted(pack.neighbours, key=lambda near: (near.hop, -near.weight))[:MOST]
            ],
            "passed": [[count, list(some)] for count, some in self._between.passed_over(pack)],
            "spans": [
                [chunk.node, chunk.start, chunk.end, chunk.weight, chunk_violation(pack, chunk, self.sources)]
                for chunk in ranked[:MOST]
            ],
            # A citation [n] names the n-th chunk of the pack, which need not be the n-th by weight.
            "cited": [ranked.index(chunk) for chunk in pack.chunks[:MOST]],
            "account": None
            if pack.account is None
            else [[rendered([one]), one.support in ("doubtful", "none")] for one in pack.account.sentences],
            "measured": None
            if measured is None
            else {
                "full": measured.full,
                "strongest": measured.without_strongest,
                "evidence": measured.without_evidence,
                "random": measured.without_random,
                "only": measured.evidence_only,
                "fell": measured.fell,
                "change": measured.change,
            },
        }

    def nodes_of(self, rows: Sequence[int]) -> list[NodeId]:
        """Those that the views of some packs mention, the packs' own first."""
        found: dict[NodeId, None] = dict.fromkeys(self.summary.nodes[row] for row in rows)
        for row in rows:
            pack = self.site.packs[row]
            found.update(dict.fromkeys(near.node for near in pack.neighbours))
            found.update(dict.fromkeys(chunk.node for chunk in pack.chunks))
            for _, some in self._between.passed_over(pack):
                found.update(dict.fromkeys(some))
        return list(found)

    def texts(
        self, rows: Sequence[int], nodes: Sequence[NodeId]
    ) -> list[tuple[int, list[Part]] | tuple[None, None]]:
        """The texts of `nodes_of` some packs, as their views show them: characters of the whole, and its shown parts.

        A text that none of them quotes, of a node that has none of these packs, is told by its beginning; a node that
        is not in the folder has none.
        """
        own = {self.summary.nodes[row] for row in rows}
        spans: dict[NodeId, list[tuple[int, int]]] = {}
        for row in rows:
            for chunk in self.site.packs[row].chunks:
                spans.setdefault(chunk.node, []).append((chunk.start, chunk.end))
        found: list[tuple[int, list[Part]] | tuple[None, None]] = []
        for node in nodes:
            text = self.sources.text(node)
            if text is None:
                found.append((None, None))
            elif node in own or node in spans:
                found.append((len(text), excerpt(text, spans.get(node, ()))))
            else:
                found.append((len(text), excerpt(text[: BEGINNING + 1], ())))
        return found


def _flags(pack: EvidencePack, faults: Sequence[str], measured: NodeFaithfulness | None) -> int:
    told = {
        "faulty": bool(faults),
        "measured": measured is not None,
        "summarised": pack.account is not None,
        "foreign": bool(pack.chunks) and all(chunk.node != pack.node for chunk in pack.chunks),
        "other-inputs": pack.evidence_share is not None and pack.evidence_share < 0.5,
        "unmoved": measured is not None and bool(pack.chunks) and not measured.fell,
    }
    return sum(FLAGS[name] for name, holds in told.items() if holds)
