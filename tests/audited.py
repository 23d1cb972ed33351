"""Sites with evidence, made by hand, for pages that show it."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtag.client.evidence.account import Account
from fedtag.client.evidence.measured import NodeFaithfulness
from fedtag.client.evidence.packs import EvidencePack, NodeId, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.evidence.page.views import AuditedSite
from fedtag.client.text.citations import CitedSentence

HOSTILE = '</mark></script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}" autofocus'


def page_blocks(html: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Overview and the rest of an audit page, as a browser unpacks them."""
    found = [re.search(f'id="{name}">([^<]*)<', html) for name in ("head", "data")]
    head, rest = (json.loads(gzip.decompress(base64.b64decode(one[1]))) for one in found if one)
    return head, rest


def told(text: str, *citations: int) -> Account:
    """An account of one sentence."""
    return Account((CitedSentence(text, citations, "added"),), 0, 9, 3, 90, 900)


def pack(node: NodeId, chunks: Sequence[SelectedChunk], **changes: object) -> EvidencePack:
    """Evidence of a node that has these chunks; whom they come from are its neighbours."""
    others = [SelectedNeighbour(other, 1, 1.0) for other in {chunk.node for chunk in chunks} - {node}]
    base = EvidencePack(
        node=node,
        kind="scored",
        round=12,
        model="9f2c",
        prediction="Theory",
        confidence=0.875,
        neighbours=(SelectedNeighbour(node, 0, 1.0), *others),
        chunks=tuple(chunks),
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def chunk(texts: Mapping[NodeId, str], node: NodeId, start: int, end: int, weight: float) -> SelectedChunk:
    """A span of a text, with its digest."""
    return SelectedChunk(node, start, end, weight, text_digest(texts[node]))


def site_of(packs: Sequence[EvidencePack], texts: Mapping[NodeId, str], **changes: object) -> AuditedSite:
    """A site with these texts and packs."""
    base = AuditedSite("Site <1> & co", packs, list(texts), list(texts.values()))
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def telling() -> AuditedSite:
    """Everything that a page can show: right, wrong and broken evidence, a summary, a measurement, a hostile node."""
    ids: list[NodeId] = [*(f"n{number}" for number in range(8)), HOSTILE]
    texts: dict[NodeId, str] = {node: f"Words of {node}. The words of a neighbour decide." for node in ids}
    texts[HOSTILE] = HOSTILE
    texts["n2"] = "\U0001f600 faces come first. \U0001f600 The words after them count."
    first = pack(
        "n0",
        [chunk(texts, "n1", 13, 44, 0.75), chunk(texts, "n0", 0, 12, 0.25)],
        neighbours=(
            SelectedNeighbour("n0", 0, 1.0),
            SelectedNeighbour("n1", 1, 1.0),
            SelectedNeighbour("n4", 2, 1.0),
        ),
        label="Rules",
        evidence_share=0.42,
        account=told("A neighbour decides [1]. It says so [2].", 1, 2),
    )
    faces = pack("n2", [chunk(texts, "n2", 2, 19, 1.0)], label="Theory", confidence=0.51)
    broken = pack("n3", [dataclasses.replace(chunk(texts, "n3", 0, 5, 1.0), sha256=text_digest("old"))])
    hostile = pack(
        HOSTILE,
        [chunk(texts, HOSTILE, 0, len(HOSTILE), 1.0)],
        prediction=HOSTILE,
        label=HOSTILE + "!",
        model=HOSTILE,
        account=told(HOSTILE),
    )
    others = [
        pack(node, [chunk(texts, node, 0, 5, 1.0)], label="Theory") for node in ("n1", "n4", "n5", "n6")
    ]
    return site_of(
        [first, faces, broken, hostile, *others],
        texts,
        splits=["test"] * 4 + ["train"] * 4 + ["none"],
        measured={"n0": NodeFaithfulness(0.875, 0.4021, 0.25, 0.86, 0.9)},
        edges=np.array([(0, 1), (0, 5), (0, 6), (1, 4), (1, 7), (6, 7)]),
    )
