"""A run on condensed graphs from the command line, and what its records say of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from typer.testing import CliRunner

from fedtag.common.wire.records import Instruction
from fedtag.deploy.cli import app
from tests.crossings import crossings

if TYPE_CHECKING:
    from tests.integration.conftest import Federated
    from tests.tiny import Tiny


def test_a_run_tells_of_every_clients_condensed_graph(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder, out = write_feature_folder(tmp_path / "data"), tmp_path / "run"
    settings = ["condenser.outer-loops=2", "condenser.hidden=4", "model.hidden=8", "device=cpu"]
    command = ["simulate", "--method", "fedavg", "--condenser", "gcond", "--ratio", "0.2", "--rounds", "2"]
    command += ["--clients", "2", "--data", str(folder), "--out", str(out)]
    for setting in settings:
        command += ["--set", setting]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in (out / "clients.jsonl").read_text().splitlines()]
    assert len(rows) == 4
    for row in rows:
        told = row["condensation"]
        assert told["nodes"] == row["nodes"]
        assert told["core"] == -(-row["nodes"] // 5)
        assert told["copied"] == 0
        assert 0 <= told["close"] <= 1
    summary = json.loads((out / "summary.json").read_text())
    assert summary["ratio"] == 0.2
    assert (out / "sites").is_dir()


class KilledError(Exception):
    """Stands for a server that is killed."""


CORE: dict[str, object] = {
    "condenser.name": "dance-core",
    "dance.confidence": 0.4,
    "dance.pseudo-share": 0.3,
    "train.epochs": 2,
}


@pytest.mark.parametrize("condenser", ["dance-core", "herding"])
def test_da_dfgas_is_trained_on_condensed_text_graphs(
    text_folder: Callable[..., Path], run_federation: Callable[..., Federated], tmp_path: Path, condenser: str
) -> None:
    kinds = ("even numbers by hand", "odd numbers by machine")
    folders = [
        text_folder(
            tmp_path / f"site-{k}", [f"Paper {i} studies {kinds[i % 2]}, part {k}." for i in range(16)]
        )
        for k in range(2)
    ]
    settings = {
        "method": "da_dfgas",
        "text.dtype": "float32",
        "data.source": ";".join(map(str, folders)),
        "clients": 2,
        "rounds": 3,
        "ratio": 0.25,
        "model.hidden": 8,
        "train.epochs": 3,
        "da_dfgas.cells": 1,
        "condenser.name": condenser,
    }
    runs = [run_federation(tmp_path / f"run-{number}", settings) for number in range(2)]
    for run in runs:
        rows = run.directory.read_rounds()
        assert [row.clients_ok for row in rows] == [2] * 3
        assert all(row.effective_ratio == 0.25 for row in rows)
        assert run.summary.test_accuracy is not None
    # With the same seed the same, bit by bit.
    one, other = (run.directory.read_model() for run in runs)
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
@pytest.mark.parametrize("name", ["text", "feature"])
def test_a_core_of_the_round_is_told_as_other_condensed_graphs_are(
    tmp_path: Path,
    write_feature_folder: Callable[..., Path],
    text_folder: Callable[..., Path],
    method: str,
    name: str,
) -> None:
    texts = [f"Paper {i} studies {'even' if i % 2 == 0 else 'odd'} numbers." for i in range(60)]
    folder = tmp_path / "data"
    out = tmp_path / "run"
    _ = text_folder(folder, texts) if name == "text" else write_feature_folder(folder)
    command = ["simulate", "--method", method, "--condenser", "dance-core", "--ratio", "0.2", "--rounds", "2"]
    command += ["--clients", "2", "--data", str(folder), "--out", str(out), "--set", "device=cpu"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in (out / "clients.jsonl").read_text().splitlines()]
    assert len(rows) == 4
    for row in rows:
        told = row["condensation"]
        assert told.keys() == {"core", "nodes", "copied", "close", "approximate"}
        assert told["core"] == -(-row["nodes"] // 5)
        assert told["copied"] == 1
    assert json.loads((out / "summary.json").read_text())["ratio"] == 0.2
    assert "<h3>Condensed graphs</h3>" in (out / "report.html").read_text()
    kinds = {row["kind"] for row in crossings(out)}
    assert "condensation" in kinds
    # The core itself stays where it is.
    assert not kinds & {"core", "x", "y", "nodes", "condensed"}


@pytest.mark.parametrize(
    ("method", "refresh"), [("fedavg", 1), ("fedavg", 2), ("da_dfgas", 2)], ids=lambda value: str(value)
)
def test_a_stopped_run_goes_on_with_the_cores_that_it_had(tiny: Tiny, method: str, refresh: int) -> None:
    settings = {
        **CORE,
        "method": method,
        "rounds": 4,
        "dance.core-refresh": refresh,
    }
    place = tiny.new_place()

    def kill(client: str, told: Instruction) -> Instruction:
        if told.round == 4 and client == "site-1":
            raise KilledError
        return told

    with pytest.raises(KilledError):
        tiny(settings, place=place, tell=kill)
    again, once = tiny(settings, place=place), tiny(settings)
    assert again.state.keys() == once.state.keys()
    assert all(torch.equal(value, once.state[name]) for name, value in again.state.items())


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
def test_masked_updates_from_cores_come_to_what_they_do_in_clear(tiny: Tiny, method: str) -> None:
    """One client cannot train; masks leave the rounding of fixed point."""
    settings = {
        **CORE,
        "method": method,
        "rounds": 2,
        "da_dfgas.personal": False,
        "da_dfgas.search-share": 0.5,
    }
    settings |= {"aggregation.statistics": "previous"} if method == "da_dfgas" else {}
    clear = tiny(settings, clients=4, idle=(2,))
    masked = tiny({**settings, "privacy.secure-aggregation": True}, clients=4, idle=(2,))
    assert masked.summary is not None
    told = [row["condensation"] for row in masked.lines("clients") if row["client"] == "site-2"]
    assert len(told) == 2
    for name, value in clear.state.items():
        torch.testing.assert_close(masked.state[name], value, rtol=0, atol=1e-4)


def test_another_method_refuses_a_condenser(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["simulate", "--method", "dance", "--condenser", "sfgc", "--out", str(tmp_path / "run")]
    )
    assert result.exit_code == 2
    assert "condenser.name = sfgc has no place in method dance" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("fedc4", "condenser.name = dance-core takes other nodes in every round, and fedc4 condenses once"),
        ("dance", "condenser.name = dance-core has no place in method dance"),
        ("fedgc", "condenser.name = dance-core has no place in method fedgc"),
        ("isolated", "condenser.name = dance-core has no place in method isolated"),
        ("centralised", "condenser.name = dance-core has no place in method centralised"),
    ],
)
def test_only_fedavg_and_da_dfgas_take_a_core_of_the_round(tmp_path: Path, method: str, why: str) -> None:
    command = ["simulate", "--method", method, "--condenser", "dance-core", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert why in " ".join(result.output.split())
