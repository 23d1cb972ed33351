"""What an audit page shows of single nodes, and how it finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int

from fedtag.client.evidence.between import Between
from fedtag.client.evidence.measured import NodeFaithfulness
from fedtag.client.evidence.pack_table import PackTable, owners
from fedtag.client.evidence.packs import EvidencePack, NodeId
from fedtag.client.evidence.page.excerpt import Part, excerpt
from fedtag.client.evidence.source_texts import SourceTexts
from fedtag.client.evidence.verification import Budgets, Verification, chunk_violation, verify
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
        verification: of these packs; they are verified where it is missing.
    """

    title: str
    packs: Sequence[EvidencePack]
    node_ids: Sequence[NodeId]
    texts: Sequence[str]
    budgets: Budgets = field(default_factory=Budgets)
    splits: Sequence[str] = ()
    measured: Mapping[NodeId, NodeFaithfulness] = field(default_factory=dict)
    edges: Int[np.ndarray, "edges 2"] | None = None
    verification: Verification | None = None


class Views:
    """Every node of a site, as a page shows it; one is made when it is asked for.

    Args:
        site: whose evidence it is.

    Attributes:
        packs: its evidence.
        nodes: the packs' own.
        splits: train, val, test or none for each of `nodes`; empty where it is not known.
        faults: what verification found, by place of the pack.
        flags: what each has, see `FLAGS`.
    """

    def __init__(self, site: AuditedSite) -> None:
        self.site = site
        self.packs = PackTable.of(site.packs)
        self.nodes = self.packs.nodes[: len(self.packs)]
        self.sources = SourceTexts(site.node_ids, site.texts)
        self._between = Between(site.node_ids, site.edges)
        verified = site.verification or verify(
            self.packs, site.node_ids, site.texts, site.budgets.hops, site.budgets.chunks
        )
        self.faults = verified.by_pack
        split_of = dict(zip(site.node_ids, site.splits, strict=True)) if site.splits else {}
        self.splits = [split_of.get(node, "") for node in self.nodes]
        self.flags = self._flags()

    @cached_property
    def row_of(self) -> dict[NodeId, int]:
        """The first pack of each node that has one."""
        return {node: row for row, node in reversed(list(enumerate(self.nodes)))}

    @property
    def rounds(self) -> list[int]:
        """Those that the packs name."""
        return sorted(self.packs.table["round"].drop_null().unique().to_pylist())

    def view(self, row: int) -> dict[str, Any]:
        """The evidence of a pack's node in plain types; nodes are their identifiers.

        Neighbours stand by hop, spans by weight, the strongest first. A span that does not verify carries why.
        """
        pack = self.packs[row]
        measured = self.site.measured.get(pack.node)
        ranked = sorted(pack.chunks, key=lambda chunk: -chunk.weight)
        return {
            "kind": pack.kind,
            "round": pack.round,
            "model": pack.model,
            "share": pack.evidence_share,
            "faults": list(self.faults.get(row, ()))[:MOST],
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
        found: dict[NodeId, None] = dict.fromkeys(self.nodes[row] for row in rows)
        for row in rows:
            pack = self.packs[row]
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
        own = {self.nodes[row] for row in rows}
        spans: dict[NodeId, list[tuple[int, int]]] = {}
        for row in rows:
            for chunk in self.packs[row].chunks:
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

    def _flags(self) -> Int[np.ndarray, " packs"]:
        packs, measured = self.packs, self.site.measured
        quoted = packs.chunks
        owner, count = owners(quoted), len(packs)
        codes, _ = packs.codes("node", whole=True)
        quotes = np.bincount(owner, minlength=count) > 0
        own = np.bincount(owner[codes[owner] == codes[quoted["row"]]], minlength=count) > 0
        seen = [measured.get(node) for node in self.nodes] if measured else [None] * count
        told = {
            "faulty": np.isin(np.arange(count), list(self.faults)),
            "measured": np.array([one is not None for one in seen], bool),
            "summarised": packs.table["account"][:count].is_valid().to_numpy(),
            "foreign": quotes & ~own,
            "other-inputs": packs.numbers("evidence_share") < 0.5,
            "unmoved": quotes & np.array([one is not None and not one.fell for one in seen], bool),
        }
        return sum(FLAGS[name] * holds.astype(np.int64) for name, holds in told.items())
