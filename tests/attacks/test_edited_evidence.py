"""Evidence that was edited by hand, so that it says less or something else and still seems to hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedtag.audits.evidence import audit_site
from fedtag.client.evidence.packs import EvidencePack, SelectedNeighbour
from fedtag.client.evidence.store import write_packs
from fedtag.client.evidence.verification import Budgets
from fedtag.client.site.site import Site
from tests.audited import chunk, pack

OWN = SelectedNeighbour(0, 0, 1.0)
EDITS: list[tuple[dict[str, Any], Sequence[str]]] = [
    ({}, ()),  # the control
    ({"neighbours": (), "chunks": ()}, ["the node itself is not selected at hop 0"]),
    ({"chunks": ()}, ["no chunk is selected, although the selected nodes have text"]),
    ({"neighbours": (OWN, *[SelectedNeighbour(1, 1, 0.5)] * 2)}, ["1 is selected 2 times"]),
    ({"neighbours": (OWN, replace(OWN, hop=2))}, ["the node itself stands at hop 2"]),
    ({"evidence_share": 7.0}, ["the share of the evidence is 7, but it lies in [0, 1]"]),
    ({"evidence_share": -3.0}, ["the share of the evidence is -3, but it lies in [0, 1]"]),
    ({"prediction": "never a class"}, ["the prediction 'never a class' is no class of the folder"]),
    ({"label": "b"}, ["the label is 'b', but 'a' in the folder"]),
    ({"label": None}, ["the label is None, but 'a' in the folder"]),
    ({"kind": "core"}, ["the pack is of kind 'core' among those of predictions, 'scored'"]),
]


@pytest.mark.parametrize(("edit", "said"), EDITS, ids=range(len(EDITS)))
def test_each_edit_is_found_and_nothing_else(
    edit: dict[str, Any], said: Sequence[str], tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "site-a")
    # Node 1 is made a neighbour, so that nothing but what is edited is at fault.
    (folder / "edges.csv").write_text("src,dst\n0,1\n1,2\n", encoding="utf-8")
    texts: dict[str | int, str] = {node: f"text of node {node}" for node in range(60)}
    packs: list[EvidencePack] = [
        pack(node, [chunk(texts, node, 0, 4, 1.0)], round=3, prediction="a", label="abc"[number % 3])
        for number, node in enumerate(texts)
    ]
    packs[0] = replace(packs[0], **edit)
    write_packs(folder / "evidence", 3, packs)
    found = audit_site(Site("site-a", folder, folder, folder / "cache"), None, Budgets()).verification
    assert found.violations == tuple(f"node 0, round 3: {one}" for one in said)


def test_a_span_that_is_quoted_twice_is_found(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "site-a")
    texts: dict[str | int, str] = {node: f"text of node {node}" for node in range(60)}
    half, rest = chunk(texts, 0, 0, 4, 0.5), chunk(texts, 0, 5, 7, 0.5)
    others = [
        pack(node, [chunk(texts, node, 0, 4, 1.0)], round=3, prediction="a", label="abc"[number % 3])
        for number, node in enumerate(texts)
    ][1:]
    for spans, said in (((half, half), ("selected 2 times",)), ((half, rest), ())):
        first = pack(0, spans, round=3, prediction="a", label="a")
        write_packs(folder / "evidence", 3, [first, *others])
        found = audit_site(Site("site-a", folder, folder, folder / "cache"), None, Budgets()).verification
        assert len(found.violations) == len(said)
        assert all(one in found.violations[0] for one in said)
