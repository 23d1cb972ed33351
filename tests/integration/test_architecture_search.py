"""DA-DFGAS from end to end: many clients, some of which cannot train, and what a run leaves behind."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from common.models.supernet.architecture import Architecture
from common.models.supernet.discretisation import discretised
from common.wire.records import Content
from server.report.page import write_report

if TYPE_CHECKING:
    from tests.integration.conftest import Tiny, Tried

SETTINGS = {
    "method": "da_dfgas",
    "rounds": 3,
    "dadfgas.search-share": 0.34,
    "dadfgas.own": "always",
    "dadfgas.architecture-rate": 0.5,
    "dadfgas.cells": 1,
    "train.epochs": 3,
}
IDLE = (0, 7, 31)


def told_architectures(run: Tried) -> dict[str, dict[str, object]]:
    folder = run.place / "run" / "architectures"
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def test_fifty_clients_some_of_which_cannot_train(tiny: Tiny) -> None:
    run = tiny(SETTINGS, clients=50, idle=IDLE)
    assert run.summary is not None
    assert all(row["clients_ok"] == 50 for row in run.lines("metrics"))
    assert all(bool(torch.isfinite(value).all()) for value in run.state.values())
    assert all(math.isfinite(row["val_accuracy"]) for row in run.lines("metrics"))
    told = told_architectures(run)
    assert told.keys() == {f"site-{k}" for k in range(50)}
    shared = discretised(Content(run.state).section("model"), 0.1)
    found = {name: Architecture.from_json({"cells": one["cells"]}) for name, one in told.items()}
    assert all(found[f"site-{k}"] == shared for k in IDLE)
    assert len({json.dumps(one["cells"]) for one in told.values()}) > 10
    assert run.summary.parameters == max(one["parameters"] for one in told.values())
    last = [row for row in run.lines("clients") if row["round"] == 3]
    assert {row["client"]: row["parameters"] for row in last} == {
        name: one["parameters"] for name, one in told.items()
    }


def test_the_same_seed_finds_the_same_architectures_and_the_report_shows_them(
    tiny: Tiny, tmp_path: Path
) -> None:
    runs = [tiny(SETTINGS) for _ in range(2)]
    assert told_architectures(runs[0]) == told_architectures(runs[1])
    for name, value in runs[0].state.items():
        assert torch.equal(value, runs[1].state[name])
    # Runs on tiny graphs write none of themselves.
    write_report([runs[0].place / "run"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<h3>Architectures</h3>" in page
    for client in told_architectures(runs[0]):
        drawn = (runs[0].place / "run" / "architectures" / f"{client}.svg").read_text().strip()
        assert drawn in page
