"""Texts with chunks cut out, encoded anew, and what the evidence path then says of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.data.assembly import FOLDER_FEATURES
from fedtag.client.evidence.masked_text import without_spans
from fedtag.client.methods.dance.condensation import chosen_views, forward
from fedtag.client.methods.dance.evidence import Texts
from fedtag.client.methods.dance.local_graph import LocalGraph
from fedtag.client.methods.dance.node_summaries import bank_encoder, text_summaries
from fedtag.client.text.bank import TextBank, build_bank
from fedtag.client.text.cache import TextCache
from fedtag.client.text.node_texts import CACHE_FILE
from fedtag.common.errors import ConfigError
from fedtag.common.methods.dance.model import DanceModel
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.models.classifier import hops_of
from fedtag.common.numerics.ragged import concatenated_ranges

Variant = tuple[int, tuple[int, ...]]
"""A node, and the chunks of its text that are left: rows of the bank, ascending."""

Action = Literal["removed", "kept", "kept_near"]


class MaskedTexts:
    """The masked texts of some conditions: collected first, then encoded together, each once.

    A masked text is the node's text with the spans of the missing chunks cut out. It is chunked, encoded and, where
    summaries join the text view, summarised like any text, and kept in the site's cache by its content.

    Args:
        local: the site's full graph.
        data: of the site.
        context: of the run.

    Raises:
        ConfigError: the site's vectors come from features.npy, so that no text can be masked.
    """

    def __init__(self, local: LocalGraph, data: SiteData, context: RunContext[DanceConfig]) -> None:
        if data.features_from == FOLDER_FEATURES:
            raise ConfigError(
                f"{data.site.name} brings features.npy in place of encoded texts, so that masking a text "
                f"changes nothing: measure faithfulness on a site without it"
            )
        self.local = local
        self.data = data
        self.context = context
        bank = data.bank
        self._ptr: list[int] = bank.ptr.tolist()
        self._start: list[int] = bank.start.tolist()
        self._end: list[int] = bank.end.tolist()
        self._owner: list[int] = bank.node_of_chunk().tolist()
        self._texts: dict[Variant, str] = {}

    def masks(
        self, action: Action, chunks: Iterable[int], neighbourhood: Iterable[int]
    ) -> tuple[Mapping[int, tuple[int, ...]], bool]:
        """Which chunks each changed node has left, and whether all other texts stay.

        Args:
            action: `removed` cuts the chunks out; `kept` leaves nothing else in the whole graph; `kept_near`
                leaves nothing else in the neighbourhood.
            chunks: rows of the bank.
            neighbourhood: the nodes that `kept_near` empties.
        """
        named: dict[int, list[int]] = {}
        for chunk in sorted(set(chunks)):
            named.setdefault(self._owner[chunk], []).append(chunk)
        if action == "removed":
            left = {
                node: tuple(sorted(set(range(self._ptr[node], self._ptr[node + 1])) - set(cut)))
                for node, cut in named.items()
            }
            return left, True
        kept = {node: tuple(rows) for node, rows in named.items()}
        if action == "kept_near":
            return {**dict.fromkeys(neighbourhood, ()), **kept}, True
        return kept, False

    def request(self, left: Mapping[int, tuple[int, ...]]) -> None:
        """Note the texts that a mask needs."""
        for node, chunks in left.items():
            if chunks and len(chunks) < self._ptr[node + 1] - self._ptr[node]:
                self._texts.setdefault((node, chunks), self.text(node, chunks))

    def text(self, node: int, chunks: tuple[int, ...]) -> str:
        """The node's text without its other chunks."""
        gone = sorted(set(range(self._ptr[node], self._ptr[node + 1])) - set(chunks))
        spans = [(self._start[chunk], self._end[chunk]) for chunk in gone]
        return without_spans(self.data.text_graph.texts[node], spans)

    def encoded(self) -> EncodedMasks:
        """All requested texts, encoded."""
        data, context, text = self.data, self.context, self.context.config.text
        whole: dict[str, list[str]] = {}
        for (node, _), masked in self._texts.items():
            whole.setdefault(masked, []).append(data.text_graph.texts[node])
        distinct, sources = list(whole), [tuple(texts) for texts in whole.values()]
        encoder = bank_encoder(data, context)
        cache = TextCache(data.site.cache / CACHE_FILE)
        progress = context.progress("encoding masked texts")
        bank = build_bank(distinct, encoder, cache, text.chunk_tokens, progress, sources).bank
        summaries = None
        if self.local.summaries is not None:
            summaries = text_summaries(distinct, bank, "summarising masked texts", data, context, sources)
        row = {string: number for number, string in enumerate(distinct)}
        rows = {variant: row[string] for variant, string in self._texts.items()}
        return EncodedMasks(self.local, bank.to(data.device), rows, text.pool_sharpness, summaries)


class EncodedMasks:
    """Vectors of the site's texts, of their masked forms and of the empty text, from which graphs are made.

    Args:
        local: the graph with the full texts.
        bank: of the masked texts.
        rows: where in the bank each of them is.
        sharpness: of the pooling.
        summaries: of the masked texts, where summaries join the text view.
    """

    def __init__(
        self,
        local: LocalGraph,
        bank: TextBank,
        rows: Mapping[Variant, int],
        sharpness: float,
        summaries: Float[Tensor, "masked dim"] | None = None,
    ) -> None:
        texts, nodes = local.texts, local.graph.num_nodes
        self.local = local
        self._rows = rows
        self._sizes = texts.ptr.diff().tolist()
        self._first = texts.ptr[:-1].tolist()
        self._empty = nodes + bank.num_nodes
        nothing = texts.pooled.new_zeros(1, texts.pooled.shape[1])
        self._pooled = torch.cat([texts.pooled, bank.pooled(sharpness), nothing])
        self._document = torch.cat([local.document, bank.document, nothing])
        self._summaries = None
        if local.summaries is not None and summaries is not None:
            self._summaries = torch.cat([local.summaries, summaries, nothing])
        self._chunks = torch.cat([texts.chunks, bank.vectors])
        widths = torch.cat([texts.ptr.diff(), bank.ptr.diff(), texts.ptr.new_zeros(1)])
        self._width = widths
        self._start = widths.cumsum(0) - widths

    def graph(self, left: Mapping[int, tuple[int, ...]], others: bool) -> LocalGraph:
        """The local graph with masked texts.

        Args:
            left: the chunks that changed nodes have left, as requested before.
            others: whether the other texts stay; else they are empty.
        """
        local = self.local
        nodes = local.graph.num_nodes
        source = torch.arange(nodes) if others else torch.full((nodes,), self._empty)
        if left:
            places = [self._place(node, chunks) for node, chunks in left.items()]
            source[torch.tensor(list(left))] = torch.tensor(places)
        source = source.to(self._width.device)
        width = self._width[source]
        texts = Texts(
            self._pooled[source],
            self._chunks[concatenated_ranges(self._start[source], width)],
            torch.cat([width.new_zeros(1), width.cumsum(0)]),
        )
        masked = replace(
            local,
            graph=local.graph.with_features(texts.pooled),
            texts=texts,
            document=self._document[source],
            summaries=None if self._summaries is None else self._summaries[source],
        )
        # Who is near whom does not depend on texts: the copy shares what was worked out once.
        vars(masked).update(neighbours=local.neighbours, second_neighbours=local.second_neighbours)
        return masked

    def _place(self, node: int, chunks: tuple[int, ...]) -> int:
        if not chunks:
            return self._empty
        if len(chunks) == self._sizes[node]:
            return node
        return len(self._sizes) + self._rows[node, chunks]


@dataclass(frozen=True)
class Said:
    """Logits of some nodes: as the model is, and with the bypass views at zero (None if it has none)."""

    whole: Float[Tensor, "rows classes"]
    without_bypass: Float[Tensor, "rows classes"] | None


@torch.no_grad()
def evidence_path(
    model: DanceModel, local: LocalGraph, targets: Int[Tensor, " rows"], reach: int | None
) -> Said:
    """The evidence path's logits, everything before it recomputed: g, difficulty, selection, fusion.

    Args:
        model: that predicts.
        local: the graph with its texts as they are now.
        targets: nodes whose logits are wanted.
        reach: hops over which the backbone reads the fused features; only nodes that near are fused. None
            fuses all nodes.
    """
    passed = forward(model, local)
    rows = torch.arange(local.graph.num_nodes, device=targets.device)
    if reach is not None:
        rows = ball(local, targets, reach)
    _, seen, _ = chosen_views(model, local, passed, rows)

    def logits(bypass: Tensor) -> Tensor:
        fused = model.fuse(replace(seen, bypass=bypass))
        x = fused.new_zeros(local.graph.num_nodes, fused.shape[1]).index_copy(0, rows, fused)
        return model.backbone(x, local.adjacency)[targets]

    plain = None if not seen.bypass.shape[1] else logits(torch.zeros_like(seen.bypass))
    return Said(logits(seen.bypass), plain)


def ball(local: LocalGraph, nodes: Int[Tensor, " rows"], hops: int) -> Int[Tensor, " near"]:
    """The nodes at most so many hops away, ascending."""
    found = torch.unique(nodes)
    for _ in range(hops):
        found = torch.unique(torch.cat([found, local.neighbours.select(found).index]))
    return found


def reach_of(model: DanceModel) -> int | None:
    """The hops over which the backbone reads the fused features; None if it does not say."""
    try:
        return hops_of(model.backbone)
    except ConfigError:
        return None
