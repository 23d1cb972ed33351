"""Sides of one protocol work together whatever their releases; those of two protocols refuse each other."""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from flwr.app import Context, Message, RecordDict

from fedtag.client.app import at_the_site, client_app, in_this_process, open_site
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig, flatten
from fedtag.common.errors import VersionError
from fedtag.common.secure.names import INGREDIENTS
from fedtag.common.wire.envelope import opened, sealed
from fedtag.common.wire.protocol import PROTOCOL, app_versions, installed_release
from fedtag.common.wire.serialised import Serialised
from fedtag.deploy.federation.bundle import write_app
from fedtag.runs.grid import InProcessGrid
from fedtag.runs.settings import extended_settings
from fedtag.server.app import app
from fedtag.server.run.rounds import Rounds
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.status import read_status

OWN = installed_release()
SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "rounds": 2,
    "clients": 3,
    "device": "cpu",
    "model.hidden": 4,
    "train.epochs": 1,
    "exchange.poll": 0.001,
}
OTHER = {"protocol": PROTOCOL + 1, "release": "0.9.0"}
SITE = 2


class Grid(InProcessGrid):
    """One site hears or says other versions than the rest."""

    def __init__(self, clients: list[SiteRun], hears: Mapping[str, Any], says: Mapping[str, Any]) -> None:
        super().__init__(clients)
        self.hears = hears
        self.says = says

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        keys: list[str] = []
        for message in messages:
            mine = message.metadata.dst_node_id == SITE
            if mine:
                message.content["header"].update(self.hears)
            keys += super().push_messages([message])
            reply = self.replies[keys[-1]]
            if mine and not reply.has_error():
                reply.content["header"].update(self.says)
        return keys


class StoppedError(Exception):
    """Stands for the end of the server's process."""


class Notes:
    """Progress of which what people are told is kept; it may stop the run after round 1."""

    def __init__(self, stops: bool) -> None:
        self.texts: list[str] = []
        self.stops = stops

    def begin(self, rounds: int, done: int) -> None: ...

    def advance(self, row: object) -> None:
        if self.stops:
            raise StoppedError

    def scored(self, row: object) -> None: ...

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        self.texts.append(text)


Train = Callable[..., tuple[RunDirectory, list[str]]]


@pytest.fixture
def sites(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> list[Site]:
    folders = [write_feature_folder(tmp_path / f"site-{k}", nodes=30, seed=k) for k in range(3)]
    return [Site(one.name, one, tmp_path / "own" / one.name, tmp_path / "cache", "cpu") for one in folders]


@pytest.fixture
def train(tmp_path: Path, sites: list[Site]) -> Train:
    def trained(
        hears: Mapping[str, Any] | None = None, says: Mapping[str, Any] | None = None, stops: bool = False
    ) -> tuple[RunDirectory, list[str]]:
        config = RunConfig.from_flat(SETTINGS)
        directory = RunDirectory(tmp_path / "run", resume=(tmp_path / "run").exists())
        notes = Notes(stops)
        grid = Grid([SiteRun(site, config) for site in sites], hears or {}, says or {})
        Rounds(grid, config, directory, notes).run()
        return directory, notes.texts

    return trained


def test_a_site_of_another_protocol_refuses_and_the_server_names_it_and_why(train: Train) -> None:
    directory, notes = train(hears=OTHER)
    why = (
        f"error 2: site-0: VersionError: the message is of protocol {PROTOCOL + 1} (fedtag 0.9.0), and here is "
        f"protocol {PROTOCOL} (fedtag {OWN}): install the same fedtag on all sides"
    )
    assert f"round 1, site-0 is left out: {why}" in notes
    failed = [row for row in directory.read_clients() if row.failed]
    assert failed
    assert all(row.failed == why for row in failed)
    # The others train, and the model is theirs.
    assert [row.clients_ok for row in directory.read_rounds()] == [2, 2]
    assert (directory.path / "model.safetensors").is_file()


def test_a_reply_of_another_protocol_is_refused_by_the_server(train: Train) -> None:
    directory, notes = train(says=OTHER)
    assert any("the message is of protocol" in note and "left out" in note for note in notes)
    assert [row.clients_ok for row in directory.read_rounds()] == [2, 2]


def test_another_release_of_the_protocol_takes_part_and_is_named(train: Train) -> None:
    directory, notes = train(says={"release": "0.1.99"})
    note = f"site-0 has fedtag 0.1.99, the server {OWN}; both have one protocol"
    assert notes.count(note) == 1
    assert [row.clients_ok for row in directory.read_rounds()] == [3, 3]
    summary = directory.read_summary()
    assert summary is not None
    assert {key: value for key, value in summary.versions.items() if key.startswith("fedtag")} == {
        "fedtag": OWN,
        "fedtag at site-0": "0.1.99",
    }
    for name in ("report.html", "README.md"):
        text = (directory.path / name).read_text(encoding="utf-8")
        assert "fedtag at site-0" in text
        assert "0.1.99" in text


def test_a_release_is_remembered_over_a_resumption(train: Train) -> None:
    with pytest.raises(StoppedError):
        train(says={"release": "0.1.99"}, stops=True)
    directory, notes = train(says={"release": "0.1.99"})
    assert not any("0.1.99" in note for note in notes)
    summary = directory.read_summary()
    assert summary is not None
    assert summary.versions["fedtag at site-0"] == "0.1.99"


@pytest.fixture
def bundled(
    tmp_path: Path, sites: list[Site], own_log: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[InProcessGrid, Context]]:
    """A grid and the context of a ServerApp whose bundle has other versions than were written."""
    monkeypatch.setenv("FEDTAG_HOME", str(tmp_path))

    def made(
        asked: Mapping[str, Any] = MappingProxyType({}), **versions: Any
    ) -> tuple[InProcessGrid, Context]:
        settings = {**SETTINGS, "out": "run", "data.source": "", **asked}
        folder = write_app(tmp_path / "app", settings)
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        config = project["tool"]["flwr"]["app"]["config"]
        config["fedtag"].update(versions)
        grid = InProcessGrid([SiteRun(site, RunConfig.from_flat(settings)) for site in sites])
        context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=flatten(config))
        return grid, context

    return made


def test_a_bundle_of_this_release_runs(tmp_path: Path, bundled: Callable[..., Any]) -> None:
    app(*bundled())
    run = RunDirectory.open(tmp_path / "runs" / "run")
    summary = run.read_summary()
    assert summary is not None
    assert summary.data == "each institution's own graph"
    assert "on each institution's own graph" in (run.path / "README.md").read_text(encoding="utf-8")


def test_a_run_between_machines_claims_no_data_that_its_settings_name(
    tmp_path: Path, bundled: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"data.source": "citeseer", "data.split": "0.5,0.2,0.3"}
    app(*bundled(named))
    run = RunDirectory.open(tmp_path / "runs" / "run")
    summary = run.read_summary()
    assert summary is not None
    assert summary.data == "each institution's own graph"
    assert summary.split is not None
    assert "0.5,0.2,0.3" not in summary.split
    for page in ("README.md", "report.html", "config.toml"):
        text = (run.path / page).read_text(encoding="utf-8")
        assert "citeseer" not in text, page
    assert "data.source = citeseer is for simulations" in capsys.readouterr().err
    # The same app goes on with it, and a longer run takes its settings over.
    app(*bundled({**named, "resume": True}))
    assert extended_settings(run.path, None, {"rounds": 3}, [])["data.source"] == ""


def test_sides_that_were_asked_for_the_same_data_know_it() -> None:
    one, other = (RunConfig.from_flat({**SETTINGS, "data.source": name}) for name in ("cora", "citeseer"))
    assert one.of_own_data().digest() == one.digest() != other.of_own_data().digest()
    assert one.of_own_data().decisive() == other.of_own_data().decisive()


def test_a_run_of_flower_is_found_by_both_its_names(
    tmp_path: Path, bundled: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    app(*bundled())
    run = RunDirectory.open(tmp_path / "runs" / "run")
    summary, status = run.read_summary(), read_status(run.path)
    assert summary is not None
    assert status is not None
    assert (summary.run, summary.flower_run) == (status.run, status.flower_run) == (status.run, "1")
    assert f"this is run {status.run}, which Flower calls 1" in capsys.readouterr().err


def test_a_bundle_of_another_release_runs_and_is_named(
    tmp_path: Path, bundled: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    app(*bundled(release="0.1.99"))
    assert (tmp_path / "runs" / "run" / "summary.json").is_file()
    assert f"the app was written by fedtag 0.1.99, and this is {OWN}" in capsys.readouterr().err


def test_a_bundle_of_another_protocol_starts_nothing(tmp_path: Path, bundled: Callable[..., Any]) -> None:
    with pytest.raises(
        VersionError,
        match=rf"the app is of protocol {OTHER['protocol']} \(fedtag 0.9.0\).*its `fedtag bundle`",
    ):
        app(*bundled(**OTHER))
    assert not (tmp_path / "runs" / "run").exists()


def test_a_site_refuses_before_it_reads_settings_or_data(caplog: pytest.LogCaptureFixture) -> None:
    table = {"kind": "Instruction", "run": "r", "step": 1, "round": 1, "phase": "train", "values": {}}
    content = sealed(Serialised(json.dumps(table)))
    assert opened(content).header == json.dumps(table)
    content["header"].update(OTHER)
    node = {"data": "/no such folder", "name": "hospital-a"}
    context = Context(
        run_id=1, node_id=1, node_config=node, state=RecordDict(), run_config={"a setting of another": 1}
    )
    message = Message(content, dst_node_id=1, message_type="train")
    with caplog.at_level(logging.ERROR):
        reply = client_app(at_the_site)(message, context)
    assert reply.error.reason is not None
    assert reply.error.reason.startswith(
        f"hospital-a: VersionError: the message is of protocol {PROTOCOL + 1}"
    )
    assert f"here is protocol {PROTOCOL}" in caplog.text


class Others(Grid):
    """The server has something else behind the names than one of the sites."""

    def __init__(self, clients: list[SiteRun], change: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(clients, {}, {})
        self.change = change

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        messages = list(messages)
        for message in messages:
            header = json.loads(str(message.content["header"]["json"]))
            if message.metadata.dst_node_id == SITE and INGREDIENTS in header["values"]:
                self.change(header["values"][INGREDIENTS])
                message.content["header"]["json"] = json.dumps(header)
        return super().push_messages(messages)


def run_with(
    sites: list[Site], path: Path, change: Callable[[dict[str, Any]], None]
) -> tuple[RunDirectory, list[str]]:
    config, directory, notes = RunConfig.from_flat(SETTINGS), RunDirectory(path), Notes(False)
    Rounds(Others([SiteRun(site, config) for site in sites], change), config, directory, notes).run()
    return directory, notes.texts


def test_a_site_with_another_package_behind_a_name_refuses_with_both(
    sites: list[Site], tmp_path: Path
) -> None:
    def changed(told: dict[str, Any]) -> None:
        told["method"]["fedavg"] |= {"package": "stranger", "version": "2.3"}

    directory, notes = run_with(sites, tmp_path / "run", changed)
    why = (
        f"error 2: site-0: VersionError: method 'fedavg' is from fedtag {OWN} (interface 1) here and from stranger "
        "2.3 (interface 1) at the server: install the same package on all sides"
    )
    assert f"round 1, site-0 is left out: {why}" in notes
    assert [row.clients_ok for row in directory.read_rounds()] == [2, 2]
    assert (directory.path / "model.safetensors").is_file()


def test_a_site_with_another_version_behind_a_name_takes_part(sites: list[Site], tmp_path: Path) -> None:
    def changed(told: dict[str, Any]) -> None:
        told["method"]["fedavg"]["version"] = "0.0.1"

    directory, _ = run_with(sites, tmp_path / "run", changed)
    assert [row.clients_ok for row in directory.read_rounds()] == [3, 3]


def test_a_site_that_lacks_the_method_says_which_package_brings_it(
    sites: list[Site], caplog: pytest.LogCaptureFixture
) -> None:
    told = {"method": {"own": {"package": "stranger", "version": "2.3", "interface": 1, "records": ""}}}
    values = {"introduce": True, INGREDIENTS: told}
    table = {"kind": "Instruction", "run": "r", "step": 1, "round": 1, "phase": "train", "values": values}
    node = {"data": str(sites[0].folder), "name": "hospital-a"}
    context = Context(
        run_id=1,
        node_id=1,
        node_config=node,
        state=RecordDict(),
        run_config={**app_versions(), "method": "own"},
    )
    message = Message(sealed(Serialised(json.dumps(table))), dst_node_id=1, message_type="train")
    reply = client_app(in_this_process(open_site))(message, context)
    assert reply.error.reason == (
        "hospital-a: VersionError: method 'own' is not installed here, or cannot be used, and the server has it from "
        "stranger 2.3 (interface 1): install that here"
    )
    assert "no method is called so" in caplog.text
