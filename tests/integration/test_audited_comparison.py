"""Studies whose runs are audited, from the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fedtag.audits.privacy import Audit, audit_privacy, write_audit
from fedtag.client.data.folder import read_folder
from fedtag.client.data.writing import write_folder
from fedtag.comparison.study import read_study
from fedtag.deploy.cli import app
from fedtag.server.tracking.run_directory import RunDirectory

STUDY = """
title = "gamma"
data = ["graph"]
seeds = 1
references = []
baseline = "off"
[settings]
method = "fedgc"
clients = 2
rounds = 3
ratio = 0.05
data.partition = "random"
fedgc.self-training-rounds = 1
fedgc.learn-from = "both"
fedgc.min-class-count = 2
fedgc.bottleneck-epochs = 3
fedgc.model-steps = 20
[[rows]]
name = "off"
[[rows]]
name = "gamma 0.1"
settings = { fedgc.bottleneck = true, fedgc.compression = 0.1 }
"""


def test_the_same_command_adds_what_audits_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_feature_folder: Callable[..., Path]
) -> None:
    graph = read_folder(write_feature_folder(tmp_path / "raw", nodes=160)).graph
    split = np.zeros(160, np.int8)
    split[np.random.default_rng(0).permutation(160)[:90]] = np.repeat([1, 2, 3], 30)
    write_folder(replace(graph, split=split, name="graph"), tmp_path / "graph")
    (tmp_path / "gamma.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)

    def fedtag(*arguments: str) -> None:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output

    fedtag("compare", "--study", "gamma.toml")
    home = tmp_path / "runs" / "gamma"
    assert "Membership" not in (home / "comparison.md").read_text()
    assert not (home / "privacy.csv").exists()
    runs = [path.parent for path in (home / "runs").rglob("summary.json")]
    audited = next(path for path in runs if "off" not in path.parts)
    write_audit(audit_privacy(Audit(audited, (), defences=False, models=2, draws=50)), audited, None)
    fedtag("compare", "--study", "gamma.toml", "--figures")
    record = json.loads((audited / "privacy.json").read_text())
    with (home / "privacy.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    # Of several targets of one kind, such as what the server saw, the one that tells most.
    told: dict[str, Any] = {}
    for target in record["targets"]:
        areas = [one["auc"] for one in target["groups"]["training nodes"]["attacks"].values()]
        if target["kind"] not in told or max(areas) > told[target["kind"]][0]:
            told[target["kind"]] = max(areas), target
    assert [line["row"] for line in lines] == ["gamma 0.1"] * len(told)
    summary = RunDirectory.open(audited).read_summary()
    assert summary is not None
    for line, target in zip(lines, [target for _, target in told.values()], strict=True):
        attacks = target["groups"]["training nodes"]["attacks"]
        assert (
            float(line["auc"])
            == max(one["auc"] for one in attacks.values())
            == attacks[line["attack"]]["auc"]
        )
        assert float(line["test"]) == summary.test_accuracy
        assert f"{float(line['auc']):.3f}" in (home / "comparison.md").read_text()
    for name in ("comparison", "convergence", "time", "privacy"):
        assert (home / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (home / f"{name}.svg").read_bytes()
    assert "(comparison.png)" in (home / "comparison.md").read_text()
    (audited / "privacy.json").unlink()
    fedtag("compare", "--study", "gamma.toml")
    assert not (home / "privacy.csv").exists()
    assert not [*home.glob("*.png"), *home.glob("*.svg")], "figures of other results"
    assert "png" not in (home / "comparison.md").read_text()


def test_the_dial_that_comes_with_fedtag_turns_one_setting() -> None:
    study = read_study("fedgc-gamma")
    assert study.rows[0].name == study.baseline
    dial = [row.settings for row in study.rows if row.name.startswith("gamma")]
    assert [set(settings) for settings in dial] == [{"fedgc.compression"}] * len(dial)
    strengths = [settings["fedgc.compression"] for settings in dial]
    assert strengths[0] == 0
    assert strengths == sorted(strengths)
