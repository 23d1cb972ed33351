from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import ClientMethod
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, QuorumError, RunError
from fedtag.common.methods.spec import METHODS
from fedtag.common.wire.protocol import app_versions
from fedtag.common.wire.records import Content
from fedtag.runs.course import resume, start
from fedtag.runs.grid import InProcessGrid
from fedtag.runs.progress import LOGGED, Progress
from fedtag.runs.simulation import PreparedRun
from fedtag.server.app import app as server_app
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase


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
    said = f"fedavg over 2 clients, results go to {out}"
    assert caplog.messages == ["site: 60 nodes, 97 edges; 36 training, 12 validation and 12 test nodes", said]
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


class Failing(ClientMethod[None]):
    """Has a mistake in it."""

    def train(self, data: SiteData, context: RunContext[None]) -> Content:
        return Content({}, {"rows": [1, 2][len(data.sizes)]})


FAILING = Failing()


@pytest.fixture
def failing(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    spec = replace(METHODS.get("fedavg"), name="failing", client=f"{__name__}:FAILING")
    monkeypatch.setitem(METHODS._added, "failing", spec)
    return RunConfig.from_flat({**config.to_flat(), "method": "failing", "exchange.retries": 0})


def test_a_log_without_room_hides_no_error(failing: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtag.runs.simulation.SITES_LOG", "/dev/full")
    with pytest.raises(QuorumError, match=r"Sites said: .*list index out of range"):
        start(failing)


def test_who_wrote_a_failing_method_finds_the_traceback(
    failing: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedtag")
    with pytest.raises(QuorumError) as stopped:
        start(failing)
    told = str(stopped.value)
    assert "No round is complete yet: resume " in told
    assert "IndexError" in told
    assert "own log" not in told
    assert "0 clients answered" in told
    file = Path("runs/failing-site-1/sites/errors.log").absolute()
    assert caplog.messages[-1] == f"what went wrong at sites, with tracebacks, is in {file}"
    assert "IndexError: list index out of range" in file.read_text()
    assert "in train\n" in file.read_text()


class Showing(ServerMethod):
    """Takes what each client sends, singly."""

    def phases(self, round_number: int, context: ServerContext) -> tuple[Phase, ...]:
        return (Phase("show", "clients show what they have", gathers="each"),)


SHOWING = Showing()


@pytest.mark.usefixtures("own_log")
def test_what_a_phase_does_not_allow_leaves_nothing_behind(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(METHODS.get("fedavg"), name="showing", server=f"{__name__}:SHOWING")
    monkeypatch.setitem(METHODS._added, "showing", spec)
    flat = {**config.to_flat(), "method": "showing", "clients": 3, "privacy.secure-aggregation": True}
    with pytest.raises(ConfigError, match="phase 'show' of method showing gathers what each client sends"):
        start(RunConfig.from_flat(flat))
    assert not (tmp_path / "runs").exists()
    monkeypatch.setenv("FEDTAG_HOME", str(tmp_path / "home"))
    context = Context(1, 1, {}, RecordDict(), {**app_versions(), **flat, "data.source": ""})
    with pytest.raises(ConfigError, match="phase 'show' of method showing"):
        server_app(InProcessGrid([]), context)
    assert not (tmp_path / "home").exists()
