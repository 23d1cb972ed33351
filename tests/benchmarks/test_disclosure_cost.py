"""What it costs to tell what crossed: 100 rounds with 500 clients and three kinds of records."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from fedtag.common.methods.records import Record, by_name
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.runs.disclosure_frame import disclosure_frame
from fedtag.server.exchange.ledger import disclosures
from fedtag.server.tracking.disclosure_table import disclosure_totals
from fedtag.server.tracking.run_directory import RunDirectory

pytestmark = pytest.mark.benchmark

ROUNDS, CLIENTS = 100, 500
MOST_BYTES = 300_000
DECLARED = by_name(
    [
        Record("model", "the global model"),
        Record("update", "the difference between the trained and the received model"),
        Record("sizes", "numbers of nodes by subset", form="value"),
        Record("working", "that it works", form="value"),
    ]
)


def test_rows_do_not_grow_with_the_clients(tmp_path: Path) -> None:
    weights = torch.zeros(1433 * 64)
    names = [f"client-{number:03d}" for number in range(CLIENTS)]
    told = {name: Instruction("run", 1, 1, "train", Content({"model/w": weights})) for name in names}
    # Texts of counts are of different lengths, as those of real sites are.
    counts = {name: {"nodes": 20 + 7 * k, "train_nodes": 5 + k} for k, name in enumerate(names)}
    replies = {
        name: Reply("run", 1, 1, "train", name, Content({"update/w": weights}, {"sizes": counts[name]}))
        for name in names
    }
    run = RunDirectory(tmp_path / "run")
    marks = [time.process_time()]
    for number in range(1, ROUNDS + 1):
        run.append_disclosures(disclosures(number, "train", told, replies, DECLARED, {}))
    marks.append(time.process_time())
    rows = run.read_disclosures()
    marks.append(time.process_time())
    disclosure_frame(rows)
    marks.append(time.process_time())
    size = (run.path / "disclosures.jsonl").stat().st_size
    seconds = [after - before for before, after in pairwise(marks)]
    print(  # noqa: T201
        f"\n{ROUNDS} rounds, {CLIENTS} clients, 3 kinds: {len(rows)} rows, {size:,} bytes; CPU-s to count and write "
        f"{seconds[0]:.2f}, to read {seconds[1]:.3f}, as a table {seconds[2]:.3f}"
    )
    assert len(rows) == 3 * ROUNDS
    assert size <= MOST_BYTES
    assert {one.kind: one.count for one in disclosure_totals(rows)} == dict.fromkeys(
        ("model", "sizes", "update"), ROUNDS * CLIENTS
    )
