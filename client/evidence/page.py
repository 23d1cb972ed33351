"""The audit page: one self-contained HTML file with the evidence of many nodes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from client.evidence.between import NAMED, Between
from client.evidence.faithfulness_view import faithfulness_view
from client.evidence.highlight import pieces
from client.evidence.measured import (
    NOT_EFFECT,
    NOT_LOWER,
    OTHER_INPUTS,
    MeasuredSite,
    NodeFaithfulness,
    shown,
)
from client.evidence.packs import (
    EvidencePack,
    NodeId,
    SelectedChunk,
    SelectedNeighbour,
    hop_name,
    shown_weight,
    write_whole,
)
from client.evidence.verification import (
    CHUNK_BUDGET,
    HOP_BUDGETS,
    SourceTexts,
    chunk_violation,
    pack_violations,
)

PER_PAGE = 1500
_SNIPPET = 100
_QUOTE = 1200
_ORIGINS = ("the node's own text", "a neighbour", "a neighbour of a neighbour")


def write_page(
    packs: Sequence[EvidencePack],
    node_ids: Sequence[NodeId],
    texts: Sequence[str],
    out: Path,
    title: str,
    per_page: int = PER_PAGE,
    hop_budgets: Sequence[int] = HOP_BUDGETS,
    chunk_budget: int = CHUNK_BUDGET,
    splits: Sequence[str] | None = None,
    measured: MeasuredSite | None = None,
    edges: Int[np.ndarray, "edges 2"] | None = None,
) -> tuple[Path, ...]:
    """Write the audit page of a site, and further pages where it has more nodes than fit on one.

    All packs are verified; those with violations come first and then the others as they come. The pages hold
    texts of the institution: they are for readers inside it. They load nothing and send nothing, and their
    content security policy lets no text of a node do so. Each finds the nodes of all.

    Args:
        packs: the evidence, of one round as a rule.
        node_ids, texts: the institution's nodes, in the same order.
        out: the HTML file; further ones get -2, -3, ... before its suffix.
        title: heading of the pages.
        per_page: most nodes on a page, >= 1.
        hop_budgets, chunk_budget: as in `verify`.
        splits: train, val, test or none for each of `node_ids`.
        measured: faithfulness of these packs.
        edges: pairs of places in `node_ids`; with them the page says through whom a second neighbour is reached.

    Returns:
        the files, in order.
    """
    sources, between = SourceTexts(node_ids, texts), Between(node_ids, edges)
    checked = [(pack, pack_violations(pack, sources, hop_budgets, chunk_budget)) for pack in packs]
    faulty = [entry for entry in checked if entry[1]]
    ordered = faulty + [entry for entry in checked if not entry[1]]
    parts = [ordered[first : first + per_page] for first in range(0, len(ordered), per_page)] or [[]]
    files = [out, *(out.with_name(f"{out.stem}-{number}{out.suffix}") for number in range(2, len(parts) + 1))]
    template = _environment().get_template("page.html.j2")
    split_of = dict(zip(node_ids, splits, strict=True)) if splits is not None else {}
    found = measured.nodes if measured is not None else {}
    for number, (part, file) in enumerate(zip(parts, files, strict=True)):
        page = template.render(
            title=title,
            total=len(checked),
            faulty=len(faulty),
            rounds=sorted({pack.round for pack in packs}),
            number=number,
            pages=[
                {
                    "name": other.name,
                    "first": nodes[0][0].node,
                    "last": nodes[-1][0].node,
                    "nodes": len(nodes),
                }
                for other, nodes in zip(files, parts, strict=True)
                if nodes
            ],
            elsewhere=_elsewhere(files, parts, number),
            measured=None if measured is None else faithfulness_view(measured.summary),
            views=[
                _view(index, pack, faults, sources, between, split_of.get(pack.node), found.get(pack.node))
                for index, (pack, faults) in enumerate(part, start=1)
            ],
        )
        write_whole(file, page.encode("utf-8", "replace"))
    return tuple(files)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"literal": _literal, "csp_hash": _csp_hash, "percent": _percent}
    environment.filters |= {"share": shown, "weight": shown_weight}
    environment.globals |= {
        "named": NAMED,
        "not_effect": NOT_EFFECT,
        "not_lower": NOT_LOWER,
        "other_inputs": OTHER_INPUTS,
    }
    return environment


def _elsewhere(
    files: Sequence[Path], parts: Sequence[Sequence[tuple[EvidencePack, list[str]]]], number: int
) -> str | None:
    """The nodes of the other pages by file, as JSON that can stand in a script element; None if there are none."""
    others = {
        file.name: [str(pack.node) for pack, _ in part]
        for place, (file, part) in enumerate(zip(files, parts, strict=True))
        if place != number
    }
    if not others:
        return None
    # Nothing in a JSON string needs these characters as they are, and HTML would read them.
    escapes = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
    return Markup(json.dumps(others).translate(escapes))


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


def _view(
    index: int,
    pack: EvidencePack,
    faults: Sequence[str],
    sources: SourceTexts,
    between: Between,
    split: str | None,
    measured: NodeFaithfulness | None,
) -> dict[str, Any]:
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


def _literal(text: str) -> Markup:
    """Escape a text so that an HTML parser gives back its exact characters.

    A parser turns a bare carriage return into a line feed, so that it goes as a reference. HTML has no
    form at all for NUL, which is shown by its symbol.
    """
    return Markup(str(escape(text)).replace("\r", "&#13;").replace("\0", "\u2400"))


def _csp_hash(source: str) -> str:
    """The source expression that allows exactly this inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _percent(value: float) -> str:
    """A share in [0, 1] as a CSS width."""
    return f"{100 * min(max(value, 0.0), 1.0):.1f}%"
