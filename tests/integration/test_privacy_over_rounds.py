"""An audit of what a run of FedGC kept of its rounds."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from rich.console import Console

from fedtag.audits.privacy import Audit, audit_privacy, write_audit
from fedtag.common.errors import ConfigError, RunError
from fedtag.deploy.terminal.privacy_table import show_audit
from fedtag.server.methods.fedgc.release import read_condensed
from fedtag.server.methods.fedgc.states import FOLDER, EarlierState, read_states
from fedtag.server.report.page import write_report
from fedtag.server.tracking.run_directory import RunDirectory
from tests.integration.conftest import Federated, federate


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, write_mixed_folder: Callable[..., Path]) -> Federated:
    """Two rounds of self-training and five of condensation, of which the last is scored out of turn."""
    place = tmp_path_factory.mktemp("rounds")
    data = write_mixed_folder(place, 240, 24, 1.5, (50, 80, 160))
    settings: dict[str, object] = {
        "method": "fedgc",
        "data.source": str(data),
        "data.partition": "random",
        "clients": 2,
        "rounds": 7,
        "ratio": 0.05,
        "seed": 4,
        "evaluation.every": 2,
        "train.epochs": 5,
        "fedgc.self-training-rounds": 2,
        "fedgc.confidence": 0.5,
        "fedgc.bottleneck": True,
        "fedgc.learn-from": "both",
        "fedgc.min-class-count": 2,
        "fedgc.bottleneck-epochs": 5,
        "fedgc.links": "learned",
        "fedgc.model-steps": 20,
        "fedgc.keep-states": True,
    }
    return federate(place / "run", settings)


@pytest.fixture(scope="module")
def record(run: Federated) -> dict[str, Any]:
    found = audit_privacy(Audit(run.directory.path, (), defences=False, models=2, draws=20, over_rounds=True))
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def states_of(run: Federated) -> tuple[EarlierState, ...]:
    return read_states(run.directory.path, run.config, 24, 3)


def test_a_run_keeps_what_it_scored(run: Federated) -> None:
    path = run.directory.path
    states = states_of(run)
    scored = [row.round for row in run.directory.read_rounds() if row.test_accuracy is not None]
    assert [state.round for state in states] == scored == [2, 4, 6, 7]
    released = read_condensed(path)
    assert states[0].graph is None
    assert states[0].teacher.keys() == released.teacher.keys()
    for name, value in released.teacher.items():
        assert torch.equal(states[0].teacher[name], value)
    graphs = {state.round: state.graph for state in states[1:]}
    assert not any(state.teacher for state in states[1:])
    best = graphs[released.card.round]
    assert best is not None
    for name, value in released.graph.tensors.items():
        assert torch.equal(best.tensors[name], value)
    earliest, latest = graphs[4], graphs[7]
    assert earliest is not None
    assert latest is not None
    assert torch.equal(earliest.y, latest.y)
    assert not torch.equal(earliest.x, latest.x)


def test_the_released_round_is_attacked_as_the_release_is(run: Federated, record: dict[str, Any]) -> None:
    """The figures of the round that was released, and of the self-trained model, are found a second time."""
    released = {target["kind"]: target for target in record["targets"]}
    rounds = {one["round"]: one["targets"] for one in record["over_rounds"]}
    assert list(rounds) == [2, 4, 6, 7]
    assert [[one["kind"] for one in those] for those in rounds.values()] == [
        ["self-trained"],
        *[["condensed", "insider"]] * 3,
    ]

    def same(found: dict[str, Any]) -> None:
        wanted = json.loads(json.dumps(released[found["kind"]]))
        for group in wanted["groups"].values():
            for attack in group["attacks"].values():
                del attack["curve"]
        assert found == wanted

    same(rounds[2][0])
    for one in rounds[read_condensed(run.directory.path).card.round]:
        same(one)
    assert rounds[4][1] != rounds[7][1]


def test_the_report_shows_the_rounds(run: Federated, record: dict[str, Any], tmp_path: Path) -> None:
    path = run.directory.path
    write_audit(record, path, None)
    page = (path / "report.html").read_text()
    assert "Strongest attack over rounds" in page
    assert "Over rounds: the strongest attack of each, and accuracy" in page
    accuracy = {row.round: row.test_accuracy for row in run.directory.read_rounds()}
    for number in (2, 4, 6, 7):
        shown = accuracy[number]
        assert shown is not None
        assert f"round {number}: " in page
        assert f"run {100 * shown:.2f}%" in page
    without = tmp_path / "without.html"
    write_audit({**record, "over_rounds": []}, path, None)
    write_report([path], without)
    assert "over rounds" not in without.read_text().split("Membership inference</h3>")[1].split("<h3>")[0]


def test_the_terminal_shows_the_rounds(record: dict[str, Any]) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    show_audit(console, record)
    told = [line.split() for line in console.export_text().splitlines()]
    for one in record["over_rounds"]:
        for target in one["targets"]:
            areas = [attack["auc"] for attack in target["groups"]["training nodes"]["attacks"].values()]
            begins = [str(one["round"]), *target["name"].split()]
            assert any(line[: len(begins)] == begins and f"{max(areas):.3f}" in line for line in told)


def test_what_cannot_be_attacked_over_rounds_is_refused(run: Federated, tmp_path: Path) -> None:
    path = run.directory.path
    with pytest.raises(ConfigError, match=r"keeps no states of its rounds: .* keep-states"):
        audit_privacy(Audit(path / "sites", (), defences=False, over_rounds=True))
    with pytest.raises(ConfigError, match="no run keeps no states"):
        audit_privacy(Audit(None, (tmp_path,), defences=True, over_rounds=True))


GRAPH, LEARNED = "round-0004.safetensors", "round-0002.safetensors"
BIAS = "teacher/layers.0.conv.bias"
FAULTS: dict[str, tuple[str, Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], str]] = {
    "width": (GRAPH, lambda own: {"graph/x": own["graph/x"][:, :3].clone()}, "x is float32 of shape"),
    "values": (GRAPH, lambda own: {"graph/x": own["graph/x"] / 0}, "features that are not finite"),
    "labels": (GRAPH, lambda own: {"graph/y": own["graph/y"] + 7}, "labels outside its 3 classes"),
    "links": (
        GRAPH,
        lambda own: {"graph/edge_index": own["graph/edge_index"] + 99},
        "nodes that are not there",
    ),
    "part": (GRAPH, lambda own: {"graph/more": torch.ones(1)}, "more is float32 of shape"),
    "model": (LEARNED, lambda own: {BIAS: own[BIAS][:1].clone()}, "are not those of a model with"),
    "model's values": (LEARNED, lambda own: {BIAS: own[BIAS] / 0}, "values that are not finite"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_state_is_named_with_what_is_wrong(run: Federated, fault: str) -> None:
    name, change, message = FAULTS[fault]
    file = run.directory.path / FOLDER / name
    content = file.read_bytes()
    tensors = safetensors.torch.load(content)
    try:
        file.write_bytes(safetensors.torch.save({**tensors, **change(tensors)}))
        with pytest.raises(RunError, match=rf"{name} is damaged, .*{message}.*: restore this file"):
            states_of(run)
    finally:
        file.write_bytes(content)


def test_a_damaged_state_can_be_left_out(run: Federated) -> None:
    path = run.directory.path
    file = path / FOLDER / GRAPH
    content = file.read_bytes()
    try:
        for damaged in (content[:50], b"", safetensors.torch.save({})):
            file.write_bytes(damaged)
            with pytest.raises(RunError, match=r"remove it to audit the other rounds"):
                audit_privacy(Audit(path, (), defences=False, models=1, draws=10, over_rounds=True))
        file.unlink()
        assert [state.round for state in states_of(run)] == [2, 6, 7]
    finally:
        file.write_bytes(content)


def test_a_record_with_damaged_rounds_is_named(run: Federated, record: dict[str, Any]) -> None:
    path = run.directory.path
    damaged = {**record, "over_rounds": [{"round": 2, "targets": [{"name": "x"}]}]}
    (path / "privacy.json").write_text(json.dumps(damaged))
    with pytest.raises(RunError, match="holds no membership audit of schema 1"):
        write_report([path], path / "report.html")
    (path / "privacy.json").unlink()
    assert RunDirectory.open(path).finished


def test_a_run_that_is_not_asked_keeps_nothing(run: Federated, tmp_path: Path) -> None:
    settings = {**run.config.to_flat(), "fedgc.keep-states": False, "rounds": 4}
    other = federate(tmp_path / "run", {name: value for name, value in settings.items() if name != "out"})
    assert not (other.directory.path / FOLDER).exists()
    assert states_of(other) == ()
