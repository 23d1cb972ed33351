"""What a round costs in counts that no machine changes, against those that were accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fedtag.common.graph import Adjacency
from tests.benchmarks.counts import REFERENCE, SIZES, complaints, counts, exponent, run_counts


def test_a_round_costs_what_it_did() -> None:
    assert complaints(counts(), json.loads(REFERENCE.read_text(encoding="utf-8"))) == []


def test_a_loop_over_nodes_would_be_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def slow(self: Adjacency, x: Tensor) -> Tensor:
        parts = [
            (self.weight[begin:end, None] * x[self.edge_index[0, begin:end]]).sum(0)
            for begin, end in zip(self.pointers[:-1].tolist(), self.pointers[1:].tolist(), strict=True)
        ]
        return torch.stack(parts)

    monkeypatch.setattr(Adjacency, "summed", slow)
    calls = [run_counts("fedavg", nodes, 1, tmp_path)["calls"] for nodes in SIZES]
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))
    name = "fedavg: exponent of operator calls"
    assert any(name in one for one in complaints({**reference, name: exponent(calls)}, reference))


def test_a_complaint_says_what_was_seen_and_what_to_do() -> None:
    (told,) = complaints({"a": 2.0}, {"a": 1.0})
    assert told.startswith("a: 2, and 1 in counts.json")
    assert "--accept" in told
    assert complaints({"a": 1.05}, {"a": 1.0}) == []
    assert len(complaints({"b": 1.0}, {"a": 1.0})) == 2
