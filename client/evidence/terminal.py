"""One node's evidence on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from fedtag.client.evidence.between import Between, named
from fedtag.client.evidence.measured import NOT_EFFECT, NOT_LOWER, OTHER_INPUTS, NodeFaithfulness, shown
from fedtag.client.evidence.packs import EvidencePack, NodeId, SelectedChunk, hop_name, shown_weight
from fedtag.client.evidence.source_texts import KnownLabels, SourceTexts
from fedtag.client.evidence.verification import (
    CHUNK_BUDGET,
    HOP_BUDGETS,
    chunk_violation,
    pack_violations,
)
from fedtag.common.wording.visible import visible

_BAR_CELLS = 20
_LONGEST_QUOTE = 4000
_LONGEST_NAME = 60


def evidence_view(
    pack: EvidencePack,
    node_ids: Sequence[NodeId],
    texts: Sequence[str],
    hop_budgets: Sequence[int] = HOP_BUDGETS,
    chunk_budget: int = CHUNK_BUDGET,
    measured: NodeFaithfulness | None = None,
    edges: Int[np.ndarray, "edges 2"] | None = None,
    known: KnownLabels | None = None,
) -> RenderableType:
    """A Rich renderable of one pack: prediction, neighbours by hop, spans quoted word for word.

    Quotes are plain text: neither Rich markup nor terminal control sequences in them take effect.

    Args:
        pack: the evidence of the node.
        node_ids, texts: the institution's nodes, against which each span is verified.
        hop_budgets, chunk_budget, known: as in `verify`.
        measured: what masking did to this node's prediction, if it was measured.
        edges: pairs of places in `node_ids`; with them it says through whom a second neighbour is reached.
    """
    sources = SourceTexts(node_ids, texts, known)
    parts: list[RenderableType] = [_headline(pack), *_strongest(pack, measured), Text()]
    parts += [
        Rule("Selected neighbours, weights sum to 1 within a hop", align="left", style="dim"),
        _neighbours(pack, sources, Between(node_ids, edges)),
        Text(),
    ]
    parts.append(Rule("Selected spans, strongest first, weights sum to 1", align="left", style="dim"))
    if not pack.chunks:
        parts.append(Text("No text was selected.", style="dim"))
    for number, chunk in enumerate(sorted(pack.chunks, key=lambda item: -item.weight), start=1):
        parts += _quote(number, pack, chunk, sources)
    if pack.summary is not None:
        parts.append(
            Rule("Summary by a language model, no part of the prediction", align="left", style="dim")
        )
        parts.append(_literal(pack.summary))
    violations = pack_violations(pack, sources, hop_budgets, chunk_budget)
    if violations:
        parts.append(Rule("Violations", align="left", style="red"))
        parts += [_literal(sentence, style="red") for sentence in violations]
    return Group(*parts)


def _headline(pack: EvidencePack) -> Text:
    line = Text.assemble(
        "Node ", (visible(str(pack.node)), "bold"), "  predicted ", (visible(pack.prediction), "bold cyan")
    )
    line.append(f"  confidence {pack.confidence:.1%}")
    if pack.label is not None:
        right = pack.label == pack.prediction
        line.append(
            "  correct" if right else f"  wrong: the label is {visible(pack.label)}",
            style="green" if right else "red",
        )
    line.append(f"\nround {pack.round}, {pack.kind} node, model {visible(pack.model[:16])}", style="dim")
    if pack.evidence_share is not None:
        line.append(
            f"\n{pack.evidence_share:.0%} of the score came through the quoted evidence and its neighbours, the "
            "rest through the graph state and features that do not pass the selection",
            style="dim",
        )
        if pack.evidence_share < 0.5:
            line.append(f"\n{OTHER_INPUTS}", style="yellow")
    if pack.chunks and all(chunk.node != pack.node for chunk in pack.chunks):
        line.append("\nNo span comes from this node's own text", style="dim")
    return line


def _strongest(pack: EvidencePack, measured: NodeFaithfulness | None) -> list[Text]:
    """The span with the largest weight and where it comes from, and what happens without it."""
    if not pack.chunks:
        return []
    top = max(pack.chunks, key=lambda chunk: chunk.weight)
    hops = [neighbour.hop for neighbour in pack.neighbours if neighbour.node == top.node]
    origin = hop_name(hops[0]) if hops else "not a selected neighbour"
    lines = [
        _literal(
            f"The {'deciding span' if measured is not None and measured.fell else 'span with the largest weight'}: "
            f"span 1, {top.weight:.0%} of the weight of the selected text, from node {top.node} ({origin})"
        )
    ]
    if measured is None:
        lines.append(Text(NOT_EFFECT, style="dim"))
        return lines
    lines.append(
        Text(
            f"Without it the probability {measured.change}; without all spans it is "
            f"{shown(measured.without_evidence)}, without as many random ones {shown(measured.without_random)}, "
            f"with no other text in the graph {shown(measured.evidence_only)}"
        )
    )
    if not measured.fell:
        lines.append(Text(NOT_LOWER, style="yellow"))
    return lines


def _neighbours(pack: EvidencePack, sources: SourceTexts, between: Between) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("hop", no_wrap=True)
    table.add_column("node", overflow="fold", min_width=8)
    table.add_column("weight in its hop", no_wrap=True)
    table.add_column("its text begins", overflow="fold")
    for neighbour in sorted(pack.neighbours, key=lambda item: (item.hop, -item.weight)):
        text = sources.text(neighbour.node)
        begins = "(not in the folder)" if text is None else " ".join(text[:_LONGEST_NAME].split())
        through = named(between.nodes(pack, neighbour.node))
        table.add_row(
            Text(f"{neighbour.hop} {hop_name(neighbour.hop)}"),
            Text.assemble(visible(str(neighbour.node)), (f" ({visible(through)})" if through else "", "dim")),
            Text.assemble((_bar(neighbour.weight), "cyan"), f" {shown_weight(neighbour.weight)}"),
            Text(visible(begins), style="dim"),
        )
    return table


def _quote(
    number: int, pack: EvidencePack, chunk: SelectedChunk, sources: SourceTexts
) -> list[RenderableType]:
    hops = [neighbour.hop for neighbour in pack.neighbours if neighbour.node == chunk.node]
    origin = hop_name(hops[0]) if hops else "not a selected neighbour"
    head = Text.assemble(
        (f"{number} ", "bold"),
        (_bar(chunk.weight), "cyan"),
        f" {shown_weight(chunk.weight)}  node ",
        (visible(str(chunk.node)), "bold"),
        f" ({origin}), characters {chunk.start}–{chunk.end}  ",
    )
    fault = chunk_violation(pack, chunk, sources)
    head.append(
        "✓ verified" if fault is None else "✗ not verified", style="green" if fault is None else "red"
    )
    text = sources.text(chunk.node)
    if text is None or not 0 <= chunk.start <= chunk.end <= len(text):
        return [head, Text()]
    quote = text[chunk.start : chunk.end]
    body = Text(visible(quote[:_LONGEST_QUOTE]))
    if len(quote) > _LONGEST_QUOTE:
        body.append(f" … {len(quote) - _LONGEST_QUOTE} more characters", style="dim")
    return [head, Padding(body, (0, 0, 1, 2))]


def _bar(weight: float) -> str:
    filled = round(_BAR_CELLS * min(max(weight, 0.0), 1.0))
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _literal(text: str, style: str = "") -> Text:
    return Text(visible(text), style=style)
