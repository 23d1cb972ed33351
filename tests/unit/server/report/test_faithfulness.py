from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.common.errors import RunError
from fedtag.server.report.faithfulness import view_faithfulness
from fedtag.server.report.page import write_report
from fedtag.server.tracking.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    directory.write_config({"method": "dance", "seed": 0})
    directory.write_model({"w": torch.zeros(1)}, {"fingerprint": "9f2c", "round": 12})
    return directory


def test_the_report_shows_what_was_measured(run: RunDirectory, measured_summary: dict[str, Any]) -> None:
    (run.path / "faithfulness.json").write_text(json.dumps(measured_summary))
    other = RunDirectory(run.path.parent / "other")
    other.write_config({"method": "fedavg"})
    out = run.path / "report.html"
    write_report([other.path, run.path], out)
    page = out.read_text()
    assert page.count("Faithfulness of the evidence") == 1
    assert "Measured on 2 test nodes of 1 site " in page
    assert page.count('<th scope="row">without the evidence</th>') == 2
    assert page.count("Insertion. the evidence: 0.200, 0.600, 0.700") == 2
    assert "0 nodes over their bound." in page
    assert page.count("<strong>Few nodes: wide intervals") == 2
    assert page.count("Dense attention is what the model would look at") == 1
    assert "{{" not in page
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))


def test_a_measurement_of_another_model_is_not_shown(
    run: RunDirectory, measured_summary: dict[str, Any]
) -> None:
    assert view_faithfulness(run) is None
    (run.path / "faithfulness.json").write_text(json.dumps({**measured_summary, "model": "other"}))
    assert view_faithfulness(run) is None
    write_report([run.path], run.path / "report.html")
    assert "Faithfulness" not in (run.path / "report.html").read_text()


def test_a_damaged_measurement_is_named(run: RunDirectory, measured_summary: dict[str, Any]) -> None:
    del measured_summary["sizes"]
    (run.path / "faithfulness.json").write_text(json.dumps(measured_summary))
    with pytest.raises(
        RunError, match=r"faithfulness.json holds no measurement of schema 1 .'sizes'.: remove it"
    ):
        view_faithfulness(run)
