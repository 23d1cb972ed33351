"""Where an institution's data lie is nobody else's business: no absolute path is sent, or kept to be passed on."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import site_from_node_config
from fedtag.common.config import RunConfig, flatten
from fedtag.common.errors import ConfigError
from fedtag.common.wire.protocol import app_versions
from fedtag.deploy.federation.bundle import write_app
from fedtag.runs.grid import InProcessGrid
from fedtag.runs.simulation import prepare, reopen
from fedtag.server.app import app as server_app
from fedtag.server.run.extension import opened
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import PLACES, SITES

Where = dict[str, list[str]]
MODELS = {"text.encoder": "e5", "summaries.model": "writer"}


def model_folder(place: Path, name: str) -> Path:
    """A folder that is looked for and not read: the sites bring features."""
    folder = place / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def leaks(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Callable[[], Where]:
    """Where the paths of a tiny run are found: in its messages, the app that goes to its sites, its directory."""

    def run() -> Where:
        base = tmp_path / "institutions"
        folders = [write_feature_folder(base / f"site-{k}", seed=k) for k in range(2)]
        settings = {
            "method": "fedavg",
            "clients": 2,
            "rounds": 2,
            "device": "cpu",
            "data.source": ";".join(map(str, folders)),
            "out": str(tmp_path / "run"),
            **{key: str(model_folder(tmp_path, name)) for key, name in MODELS.items()},
        }
        prepared, wire = prepare(RunConfig.from_flat(settings)), []
        clients = [SiteRun(site, prepared.config) for site in prepared.sites]
        grid = InProcessGrid(clients, lambda parcel: wire.append(b"".join(parcel.objects.values())))
        Rounds(grid, prepared.config, prepared.directory, LineProgress()).run()
        app = write_app(tmp_path / "app", prepared.config.to_flat())
        found = {f"message {k}": content for k, content in enumerate(wire)}
        found["app"] = (app / "pyproject.toml").read_bytes()
        for file in sorted(prepared.directory.path.rglob("*")):
            place = file.relative_to(prepared.directory.path)
            if file.is_file() and place.parts[0] not in (SITES, PLACES):
                found[str(place)] = file.read_bytes()
        assert len(wire) > 8
        assert {"config.toml", "summary.json", "report.html", "README.md", "model.json"} <= found.keys()
        wanted = {
            "of the data": str(base),
            "of models": str(tmp_path / "models"),
            "of anything here": str(tmp_path),
        }
        return {
            what: [name for name, text in found.items() if path.encode() in text]
            for what, path in wanted.items()
        }

    return run


def test_no_message_and_no_file_to_pass_on_names_a_place(leaks: Callable[[], Where], tmp_path: Path) -> None:
    assert leaks() == {"of the data": [], "of models": [], "of anything here": []}
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["data"]["source"] == "site-0;site-1"
    # What needs the places finds them: a run whose sites are lost makes them anew.
    again = reopen(tmp_path / "run")
    assert again.directory.read_places()["data.source"].startswith(str(tmp_path / "institutions"))
    assert again.config.text.encoder == "e5"
    for name in MODELS.values():
        assert [site.model(name) for site in again.sites] == [str(model_folder(tmp_path, name))] * 2


def test_settings_as_they_were_given_would(
    leaks: Callable[[], Where], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with places left in the settings they stand in what sites are sent, and in the run's own files."""
    monkeypatch.setattr(RunConfig, "without_places", lambda config: config)
    monkeypatch.setattr("fedtag.deploy.federation.bundle.check_travels", lambda settings: None)
    found = leaks()
    assert {"app", "config.toml", "report.html"} <= set(found["of the data"])
    assert {"app", "config.toml", "report.html"} <= set(found["of models"])


@pytest.mark.usefixtures("own_log")
@pytest.mark.parametrize("key", [*MODELS, "data.source", "out"])
def test_a_coordinators_path_goes_to_no_institution(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`flwr run --run-config` can still name one; the server app ends before it has asked anybody."""
    monkeypatch.setenv("FEDTAG_HOME", str(tmp_path))
    settings = {**app_versions(), "method": "fedavg", key: "/srv/place"}
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=flatten(settings))
    with pytest.raises(ConfigError, match=f"{key} = /srv/place is a place on this machine"):
        server_app(InProcessGrid([]), context)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("own_log")
@pytest.mark.parametrize("out", ["../../elsewhere", "runs/../../elsewhere", ".."])
def test_who_submits_a_run_chooses_no_folder_outside_the_runs(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a" / "home"
    monkeypatch.setenv("FEDTAG_HOME", str(home))
    run_config = flatten({**app_versions(), "method": "fedavg", "out": out})
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=run_config)
    with pytest.raises(
        ConfigError, match=r"is a place on this machine.*give a name, which is a folder of runs/"
    ):
        server_app(InProcessGrid([]), context)
    assert not home.exists()
    # The control: without the check a run's files would be made there.
    made = opened(
        home / "runs" / out, RunConfig.from_flat({"method": "fedavg"}), home / "runs"
    ).path.resolve()
    assert made.is_dir()
    assert not made.is_relative_to(home / "runs")


def test_an_institution_says_where_its_models_lie(tmp_path: Path) -> None:
    place = model_folder(tmp_path, "e5")
    node = {"data": str(tmp_path), "models": f"/nowhere{os.pathsep}{place.parent}"}
    site = site_from_node_config(node, "cpu")
    assert (site.model("e5"), site.model("org/other")) == (str(place), "org/other")
    # What is built in stays so, whatever else is called like it.
    model_folder(tmp_path, "bundled")
    assert site.model("bundled") == "bundled"
