"""DA-DFGAS from end to end: many clients, some of which cannot train, and what a run leaves behind."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as parquet
import pytest
import torch
from click.testing import Result
from safetensors.torch import load_file
from typer.testing import CliRunner

from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.discretisation import discretised
from fedtag.common.tensors import tensor_bytes
from fedtag.common.wire.records import Content
from fedtag.deploy.cli import app
from fedtag.server.report.page import write_report

if TYPE_CHECKING:
    from tests.tiny import Tiny, Tried

SETTINGS = {
    "method": "da_dfgas",
    "rounds": 3,
    "da_dfgas.search-share": 0.34,
    "da_dfgas.own": "always",
    "da_dfgas.architecture-rate": 0.5,
    "da_dfgas.cells": 1,
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


def fedtag(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_site_predicts_by_its_own_architecture_as_it_was_scored(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny({**SETTINGS, "evaluation.every": 1})
    assert run.summary is not None
    released, told = run.place / "run", told_architectures(run)
    shared = discretised(Content(load_file(released / "model.safetensors")).tensors, 0.1)
    assert any(Architecture.from_json(one) != shared for one in told.values())
    right = {True: 0, False: 0}
    for session in run.sessions:
        name, folder = session.site.name, session.site.folder
        for own in (True, False):
            out = tmp_path / f"{name}-{own}.parquet"
            options = ["--workspace", session.site.workspace] if own else []
            result = fedtag("predict", released, folder, "--out", out, *options)
            assert result.exit_code == 0, result.stderr
            table = parquet.read_table(out)
            assert set(table["scoring"].to_pylist()) == {"own" if own else "shared"}
            rows = zip(*(table[key].to_pylist() for key in ("prediction", "label", "split")), strict=True)
            right[own] += sum(said == label for said, label, split in rows if split == "test")
    nodes = sum(session.data.sizes["test_nodes"] for session in run.sessions)
    assert right[True] / nodes == pytest.approx(run.summary.test_accuracy)
    assert right[True] != right[False]


def test_a_part_around_it_says_by_what_a_site_predicts(tiny: Tiny, tmp_path: Path) -> None:
    mended = {"parts": "neighbour-generator", "neighbour-generator.rounds": 1}
    run = tiny({**SETTINGS, **mended, "evaluation.every": 1})
    site = run.sessions[0].site
    for options, scoring in ((["--workspace", site.workspace], "own"), ([], "shared")):
        out = tmp_path / f"{scoring}.parquet"
        result = fedtag("predict", run.place / "run", site.folder, "--out", out, *options)
        assert result.exit_code == 0, result.stderr
        assert set(parquet.read_table(out)["scoring"].to_pylist()) == {scoring}


def test_workspaces_that_say_nothing_of_an_architecture_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    own, one = tiny(SETTINGS), tiny({**SETTINGS, "da_dfgas.personal": False})
    site = own.sessions[0].site
    copy = tmp_path / "workspace"
    shutil.copytree(site.workspace, copy)
    (kept,) = copy.rglob("architecture.safetensors")

    def refused(run: Tried, workspace: Path) -> str:
        out = tmp_path / "predictions.parquet"
        result = fedtag("predict", run.place / "run", site.folder, "--out", out, "--workspace", workspace)
        assert result.exit_code in (1, 2)
        assert not out.exists()
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
        return result.stderr

    assert "keep nothing to themselves" in refused(one, site.workspace)
    assert "keeps no 'architecture' of any run" in refused(own, tmp_path)
    told = told_architectures(own)[site.name]
    for broken in ({"cells": [{}]}, {"cells": 3}, {**told, "cells": [[]]}):
        kept.write_bytes(tensor_bytes({}, {"values": json.dumps(broken)}))
        assert "is damaged" in refused(own, copy)
    kept.write_bytes(b"[")
    assert "is damaged" in refused(own, copy)
    kept.write_bytes(tensor_bytes({}, {"values": json.dumps({"cells": told["cells"] * 2})}))
    assert "has 2 cells, and the model 1" in refused(own, copy)
