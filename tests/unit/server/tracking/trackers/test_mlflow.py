"""Runs in MLflow, read back by MLflow itself; no network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedtag.server.tracking.trackers.mlflow import MlflowRun, opened
from fedtag.server.tracking.trackers.spec import TrackedRun

# mlflow 3.17 asks SQLAlchemy for a way of loading by its former name.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """In which nothing says where MLflow is."""
    pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_a_resumed_run_is_one_run_with_every_number_once(environment: None, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    settings = {f"table.setting-{number}": number for number in range(150)}
    folder = tmp_path / "first"
    folder.mkdir()
    tracker: MlflowRun = opened(TrackedRun("abc", folder, settings))
    tracker.log(1, {"loss/train": 0.5, "seconds/round": 1.0, "seconds/a (strange) phase": 1.0})
    tracker.log(2, {"loss/train": 0.25, "seconds/round": 1.0})
    tracker.close(None)
    resumed = opened(TrackedRun("abc", folder, settings, 2))
    resumed.log(2, {"loss/train": 0.3, "seconds/round": 2.0})
    resumed.log(3, {"loss/train": 0.125, "seconds/round": 1.0})
    resumed.close({"method": "fedavg", "rounds": 3, "test_accuracy": 0.75, "test_ece": None})
    assert resumed.id == tracker.id

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
    run = client.get_run(tracker.id)
    history = client.get_metric_history(tracker.id, "loss/train")
    assert [(one.step, one.value) for one in history] == [(1, 0.5), (2, 0.25), (3, 0.125)]
    assert run.data.params == {name: str(value) for name, value in settings.items()}
    assert run.data.metrics["released/test_accuracy"] == 0.75
    assert "released/test_ece" not in run.data.metrics
    assert run.data.metrics["seconds/a _strange_ phase"] == 1.0
    assert (run.info.status, run.info.run_name) == ("FINISHED", "first")
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
