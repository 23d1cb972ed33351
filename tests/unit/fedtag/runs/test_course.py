from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError
from fedtag.runs.course import resume, start
from fedtag.runs.progress import LOGGED, Progress
from fedtag.runs.simulation import PreparedRun


class Engine:
    """Carries out nothing and remembers what it was given."""

    def __init__(self) -> None:
        self.runs: list[PreparedRun] = []

    def __call__(self, run: PreparedRun, progress: Progress) -> None:
        assert progress is LOGGED
        self.runs.append(run)


@pytest.fixture
def config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_feature_folder: Callable[..., Path]
) -> RunConfig:
    monkeypatch.chdir(tmp_path)
    folder = write_feature_folder(tmp_path / "site")
    settings = {"method": "fedavg", "data.source": str(folder), "clients": 2, "data.partition": "random"}
    return RunConfig.from_flat({**settings, "rounds": 1})


def test_an_engine_gets_a_prepared_run(
    config: RunConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedtag")
    engine = Engine()
    out = start(config, engine)
    assert out == tmp_path / "runs" / "fedavg-site-1"
    (run,) = engine.runs
    assert (run.directory.path, len(run.sites), run.config.resume) == (out, 2, False)
    assert caplog.messages == [f"fedavg over 2 clients, results go to {out}"]
    # Nothing was carried out, so that there is something to go on with.
    assert resume(out, engine) == out
    assert engine.runs[1].config.resume
    with pytest.raises(RunError, match="is no run directory"):
        resume(tmp_path / "site", engine)


def test_a_finished_run_is_left_alone(config: RunConfig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fedtag")
    out, engine = start(config), Engine()
    assert resume(out, engine) == out
    assert engine.runs == []
    assert caplog.messages[-1] == f"{out} is finished: there is nothing to continue"
