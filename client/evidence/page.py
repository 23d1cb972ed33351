"""The audit page: one self-contained HTML file with the evidence of many nodes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fedtag.client.evidence.between import NAMED, Between
from fedtag.client.evidence.faithfulness_view import faithfulness_view
from fedtag.client.evidence.measured import (
    NOT_EFFECT,
    NOT_LOWER,
    OTHER_INPUTS,
    MeasuredSite,
    shown,
)
from fedtag.client.evidence.node_view import node_view
from fedtag.client.evidence.packs import EvidencePack, NodeId, shown_weight
from fedtag.client.evidence.verification import (
    CHUNK_BUDGET,
    HOP_BUDGETS,
    SourceTexts,
    pack_violations,
)
from fedtag.client.site.whole_file import write_whole
from fedtag.common.wording.visible import visible, visible_value

PER_PAGE = 1500


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
                node_view(
                    index, pack, faults, sources, between, split_of.get(pack.node), found.get(pack.node)
                )
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
        finalize=visible_value,
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


def _literal(text: str) -> Markup:
    """Escape a text so that an HTML parser gives back its exact characters, those replaced that `visible` replaces.

    A parser turns a bare carriage return, which does nothing on a page, into a line feed, so that it goes as a
    reference.
    """
    return Markup("&#13;").join(visible(part) for part in text.split("\r"))


def _csp_hash(source: str) -> str:
    """The source expression that allows exactly this inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _percent(value: float) -> str:
    """A share in [0, 1] as a CSS width."""
    return f"{100 * min(max(value, 0.0), 1.0):.1f}%"
