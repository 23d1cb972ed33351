from __future__ import annotations

import math

import pytest

from fedtag.client.evidence.churn import by_margin, changes, churn
from fedtag.client.evidence.packs import EvidencePack, SelectedChunk


def pack(node: str, *starts: int) -> EvidencePack:
    chunks = tuple(SelectedChunk(node, start, start + 5, 0.5, "") for start in starts)
    return EvidencePack(node, "scored", 1, "m", "c", 0.5, (), chunks)


def test_changes_are_jaccard_distances_of_the_nodes_in_both() -> None:
    before = [pack("a", 0, 10), pack("b", 0, 10), pack("c"), pack("gone", 0)]
    after = [pack("new", 0), pack("b", 10, 20, 30), pack("a", 10, 0), pack("c")]
    found = {change.node: change.changed for change in changes(before, after)}
    assert found == {"a": 0.0, "b": pytest.approx(3 / 4), "c": 0.0}
    told = churn(3, 5, changes(before, after))
    assert (told.first, told.last, told.nodes, told.unchanged_nodes) == (3, 5, 3, 2)
    assert told.changed == pytest.approx(0.25)
    assert churn(1, 2, []).changed is None


def test_groups_of_like_margin() -> None:
    pairs = [(0.1, 1.0), (0.4, 0.0), (0.2, 0.5), (math.inf, 1.0), (0.3, 0.25)]
    assert by_margin(pairs, groups=2) == [(0.2, 2, 0.75), (0.4, 2, 0.125)]
    assert by_margin([(math.inf, 1.0)]) == []
    assert by_margin([(0.1, 1.0)], groups=4) == [(0.1, 1, 1.0)]
