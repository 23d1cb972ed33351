"""fedtag called from Python: the same runs as from the command line, as tables, and methods that are objects."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import fedtag
from fedtag.client.methods.base import ClientMethod
from fedtag.client.prediction.table import CLASS_PREFIX
from fedtag.common.graph import normalised_adjacency
from fedtag.common.methods.spec import METHODS, MethodSpec
from fedtag.deploy.cli import app
from fedtag.errors import ConfigError, DataError, RunError
from fedtag.testing import check_method
from tests.objects import method_spec

SMALL = {"model.hidden": 8, "train.epochs": 1}


class Sharpened(ClientMethod[None]):
    """FedAvg whose loss is that of labels smoothed."""

    def loss(self, model: Any, examples: Any, generator: torch.Generator) -> Callable[[], torch.Tensor]:
        plain = super().loss(model, examples, generator)
        return lambda: 2 * plain()


def spec(**changes: Any) -> MethodSpec:
    return method_spec(**{"name": "sharpened", "client": Sharpened(), **changes})


@pytest.fixture(scope="module")
def graph(
    write_feature_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> fedtag.Graph:
    return fedtag.Graph.from_folder(write_feature_folder(tmp_path_factory.mktemp("python") / "data"))


@pytest.fixture(scope="module")
def run(graph: fedtag.Graph, tmp_path_factory: pytest.TempPathFactory) -> fedtag.Run:
    out = tmp_path_factory.mktemp("python") / "run"
    return fedtag.simulate(graph, "fedavg", clients=2, rounds=3, seed=1, settings=SMALL, out=out)


def in_memory(graph: fedtag.Graph, name: str = "data") -> fedtag.Graph:
    nodes = graph.nodes
    found = fedtag.Graph.from_pandas(
        nodes, graph.edges, id="id", text="text", label="label", split="split", src="src", dst="dst",
        features=graph.text_graph.features, name=name,
    )  # fmt: skip
    assert found.problems().empty
    return found


def test_the_command_line_makes_the_same_run(graph: fedtag.Graph, run: fedtag.Run, tmp_path: Path) -> None:
    arguments = ["simulate", "--data", graph.source, "--method", "fedavg", "--clients", "2", "--rounds", "3"]
    changes = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    done = CliRunner().invoke(app, [*arguments, *changes, "--seed", "1", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    other = fedtag.open_run(tmp_path / "run")
    assert (run.path / "model.safetensors").read_bytes() == (other.path / "model.safetensors").read_bytes()
    # What a client sends says how long it took.
    told = [column for column in run.rounds if not column.startswith(("seconds", "bytes_up"))]
    pd.testing.assert_frame_equal(run.rounds[told], other.rounds[told])
    assert run.settings == other.settings


def test_a_graph_in_memory_and_its_parts_make_the_same_model(
    graph: fedtag.Graph, run: fedtag.Run, tmp_path: Path
) -> None:
    alone = fedtag.simulate(
        in_memory(graph), "fedavg", clients=2, rounds=3, seed=1, settings=SMALL, out=tmp_path / "memory"
    )
    parts = graph.partition(clients=2, seed=1)
    divided = fedtag.simulate(parts, "fedavg", rounds=3, seed=1, settings=SMALL, out=tmp_path / "parts")
    for other in (alone, divided):
        assert run.model.keys() == other.model.keys()
        assert all(torch.equal(value, other.model[name]) for name, value in run.model.items())


def test_a_run_is_read_as_tables(run: fedtag.Run) -> None:
    assert run.finished
    assert run.rounds["round"].tolist() == [1, 2, 3]
    assert run.rounds["test_accuracy"].between(0, 1).all()
    assert len(run.clients) == 6
    assert run.summary["rounds"] == 3
    assert run.sites == ("client-00", "client-01")
    assert run.settings["train"]["epochs"] == 1
    assert "test_accuracy" in run._repr_html_()
    assert run.plot()._repr_png_().startswith(b"\x89PNG")
    assert "<html" in run.report().read_text(encoding="utf-8")


def test_predictions_are_those_of_the_command_line(
    graph: fedtag.Graph, run: fedtag.Run, tmp_path: Path
) -> None:
    table = run.predict(graph.source)
    done = CliRunner().invoke(
        app, ["predict", str(run.path), graph.source, "--out", str(tmp_path / "said.parquet")]
    )
    assert done.exit_code == 0, done.output
    pd.testing.assert_frame_equal(table, pd.read_parquet(tmp_path / "said.parquet"))
    pd.testing.assert_frame_equal(table, run.predict(in_memory(graph)).assign(split=table["split"]))
    own = fedtag.predict(run.path, site="client-01")
    assert set(own["node_id"]) < set(table["node_id"])
    assert own[[f"{CLASS_PREFIX}{name}" for name in "abc"]].sum(axis=1).to_numpy() == pytest.approx(
        1, abs=1e-5
    )


def test_a_graph_without_labels_is_predicted_for(graph: fedtag.Graph, run: fedtag.Run) -> None:
    features = graph.text_graph.features
    bare = fedtag.Graph.from_pandas(
        graph.nodes[["id"]], graph.edges, id="id", features=features, weight="weight"
    )
    assert bare.problems().empty
    table = run.predict(bare)
    assert table["prediction"].tolist() == run.predict(graph)["prediction"].tolist()
    assert table["label"].isna().all()
    with pytest.raises(DataError, match="there are no classes to learn"):
        fedtag.simulate(bare, "fedavg", clients=2)


def test_embeddings_are_what_the_last_layer_reads(graph: fedtag.Graph, run: fedtag.Run) -> None:
    hidden = run.embeddings(graph)
    assert hidden.shape == (60, 8)
    assert hidden.index.tolist() == graph.nodes["id"].tolist()
    head = {name.rpartition(".")[2]: value.numpy() for name, value in run.model.items() if len(value) == 3}
    edges = graph.text_graph.to_graph(torch.zeros(60, 1)).edge_index
    propagated = normalised_adjacency(edges, 60).propagate(torch.tensor(hidden.to_numpy())).numpy()
    logits = propagated @ head["weight"].T + head["bias"]
    shares = run.predict(graph)[[f"{CLASS_PREFIX}{name}" for name in "abc"]].to_numpy()
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert expected == pytest.approx(shares, abs=1e-5)


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        ({"method": "fedavgg"}, ConfigError, "no method is called so"),
        ({"settings": {"train.epoch": 1}}, ConfigError, "did you mean 'train.epochs'"),
        ({"rounds": 0}, ConfigError, "rounds = 0"),
        ({"settings": [1]}, ConfigError, r"settings=\[1\] is no mapping"),
        ({"clients": 61}, DataError, "cannot be divided over 61 clients"),
    ],
)
def test_what_is_wrong_is_told_and_leaves_nothing(
    graph: fedtag.Graph, wrong: dict[str, Any], error: type[Exception], told: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=told):
        fedtag.simulate(graph, **{"method": "fedavg", "clients": 2, "out": tmp_path / "run", **wrong})
    assert not (tmp_path / "run").exists()


def test_what_is_no_graph_or_no_run_is_told(graph: fedtag.Graph, run: fedtag.Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"give a fedtag\.Graph"):
        fedtag.simulate([], "fedavg")
    for wrong in (3, [graph, 3], "data"):
        with pytest.raises(ConfigError, match=r"give a fedtag\.Graph"):
            fedtag.compare(wrong, ["fedavg"], out=tmp_path / "none")  # type: ignore[arg-type]
    for methods in ("fedavg", []):
        with pytest.raises(ConfigError, match="give a list of names or specifications"):
            fedtag.compare(graph, methods, out=tmp_path / "none")
    with pytest.raises(ConfigError, match="2 graphs are as many clients"):
        fedtag.simulate(graph.partition(clients=2), "fedavg", clients=3)
    with pytest.raises(RunError, match="is no run directory"):
        fedtag.open_run(tmp_path)
    with pytest.raises(RunError, match="has no site 'nobody'; it has client-00, client-01"):
        run.predict(site="nobody")
    with pytest.raises(RunError, match="has no evidence"):
        run.evidence(0)
    with pytest.raises(ConfigError, match="name a graph"):
        run.predict()


def test_a_site_that_brings_nothing_to_learn_from_is_told(
    graph: fedtag.Graph, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trains, scores = graph.partition(clients=2, by="random")
    nodes = scores.nodes.assign(split="test")
    scores = fedtag.Graph.from_pandas(
        nodes, scores.edges, id="id", text="text", label="label", split="split", src="src", dst="dst",
        features=scores.text_graph.features, name="scores", classes=graph.text_graph.classes,
    )  # fmt: skip
    settings = {**SMALL, "aggregation.weights": "samples"}
    run = fedtag.simulate([trains, scores], "fedavg", rounds=1, settings=settings, out=tmp_path / "run")
    assert run.finished
    told = "scores: no labelled node is in the split train, so that it is scored and does not train"
    assert [said for said in caplog.messages if "no labelled node" in said] == [
        f"{told}; mark some, or draw a split with data.split = 0.6,0.2,0.2"
    ]
    with pytest.raises(DataError, match="no labelled node is in the split train"):
        fedtag.simulate([scores], "fedavg", rounds=1, settings=settings, out=tmp_path / "other")


OWNED = {"out": "out=", "data.source": "a graph", "parent.model": "start=", "resume": r"open_run\(\.\.\.\)"}


def test_settings_that_a_call_owns_are_refused_with_what_decides(graph: fedtag.Graph, tmp_path: Path) -> None:
    for key, instead in {**OWNED, "method": "methods=", "seed": "seeds="}.items():
        with pytest.raises(ConfigError, match=rf"settings: {key} cannot be set here; give {instead}"):
            fedtag.compare(graph, ["fedavg"], seeds=1, settings={key: "x"}, out=tmp_path / "c")
    for key, instead in OWNED.items():
        with pytest.raises(ConfigError, match=rf"settings: {key} cannot be set here; give {instead}"):
            fedtag.simulate(graph, "fedavg", settings={key: "x"}, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_numpy_are_the_numbers_that_they_are(
    graph: fedtag.Graph, run: fedtag.Run, tmp_path: Path
) -> None:
    again = fedtag.simulate(
        graph, "fedavg", clients=np.int64(2), rounds=np.int32(3), seed=np.uint8(1), out=tmp_path / "run",
        settings={"model": {"hidden": np.int64(8)}, "train.epochs": np.int64(1), "evaluation.local": np.bool_(True)},
    )  # fmt: skip
    assert all(torch.equal(run.model[name], again.model[name]) for name in run.model)
    with pytest.raises(ConfigError, match=r"train\.learning-rate = -0\.10000000149"):
        fedtag.simulate(graph, settings={"train.learning-rate": np.float32(-0.1)})


def test_places_where_nothing_can_be_written_are_told(graph: fedtag.Graph, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    places: dict[Any, str] = {
        "": "out='' names no folder: give the path",
        3: "out=3 names no folder: give the path",
        file: r"file is a file",
        file / "below": "Not a directory; check the path",
        "/proc/fedtag-run": "No such file or directory; check the path",
        tmp_path / ("x" * 300): "File name too long; check the path",
    }
    for out, told in places.items():
        with pytest.raises(fedtag.errors.FedtagError, match=told):
            fedtag.simulate(graph, "fedavg", clients=2, rounds=1, settings=SMALL, out=out)
        with pytest.raises(fedtag.errors.FedtagError, match=told):
            fedtag.compare(graph, ["fedavg"], seeds=1, clients=2, rounds=1, settings=SMALL, out=out)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert file.read_text() == "kept"


@contextmanager
def room(largest: int) -> Iterator[None]:
    """No file grows beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# Each stops at another file: the sites' graphs, what a site keeps, a checkpoint, the report.
@pytest.mark.parametrize("largest", [0, 500, 1900, 4000, 20_000])
def test_where_there_is_no_room_the_place_is_told_and_nothing_is_lost(
    graph: fedtag.Graph, run: fedtag.Run, tmp_path: Path, largest: int
) -> None:
    out = tmp_path / "run"
    with (
        room(largest),
        pytest.raises(
            fedtag.errors.FedtagError, match=r"File too large; check|no space is left at"
        ) as caught,
    ):
        fedtag.simulate(graph, "fedavg", clients=2, rounds=3, seed=1, settings=SMALL, out=out)
    assert str(out) in str(caught.value)
    if (out / "config.toml").exists():
        later = fedtag.open_run(out).resume()
    else:
        later = fedtag.simulate(graph, "fedavg", clients=2, rounds=3, seed=1, settings=SMALL, out=out)
    assert (later.path / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()


def test_a_damaged_run_is_told_wherever_it_is_read(run: fedtag.Run, tmp_path: Path) -> None:
    for name, told in {
        "metrics.jsonl": "metrics.jsonl is empty",
        "summary.json": "summary.json is not JSON",
    }.items():
        damaged = shutil.copytree(run.path, tmp_path / name)
        (damaged / name).write_bytes(b"")
        for read in (
            fedtag.open_run,
            lambda path: fedtag.Run(path).rounds,
            lambda path: fedtag.Run(path).report(),
        ):
            with pytest.raises(RunError, match=told):
                read(damaged)
    cut = shutil.copytree(run.path, tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:-9])
    with pytest.raises(RunError, match=r"model\.safetensors is not the file whose SHA-256"):
        fedtag.predict(cut, site="client-00")
    for name in ("model.safetensors", "model.json"):
        (cut / name).unlink()
    with pytest.raises(RunError, match=r"has lost model\.safetensors and model\.json; restore"):
        fedtag.predict(cut, site="client-00")


def test_a_method_that_is_an_object_is_run_and_compared(
    graph: fedtag.Graph, tmp_path: Path, handed_over: None
) -> None:
    made = fedtag.compare(
        graph, ["fedavg", spec()], seeds=2, clients=2, rounds=2, settings=SMALL, out=tmp_path / "both"
    )
    assert made.failures == {}
    assert made.table["seeds"].tolist() == [2, 2]
    assert made.table.loc[("sharpened", "data"), "test_accuracy"] > 0
    one = {name: made.run(name, 0).model for name in ("fedavg", "sharpened")}
    assert any(not torch.equal(one["fedavg"][name], one["sharpened"][name]) for name in one["fedavg"])
    assert made.plot()._repr_png_().startswith(b"\x89PNG")
    assert made.plot(over="rounds")._repr_png_().startswith(b"\x89PNG")
    assert made.page.is_file()
    with pytest.raises(ConfigError, match="sharpened lives in this process alone"):
        fedtag.compare(graph, [spec()], jobs=2, out=tmp_path / "both")


def test_a_comparison_of_a_graph_in_memory_is_used_again(graph: fedtag.Graph, tmp_path: Path) -> None:
    asked = {"seeds": [3], "clients": 2, "rounds": 1, "settings": SMALL, "out": tmp_path / "c"}
    first = fedtag.compare(in_memory(graph), ["fedavg"], **asked)
    written = (first.run("fedavg", 3).path / "model.safetensors").stat().st_mtime_ns
    again = fedtag.compare(in_memory(graph), ["fedavg"], **asked)
    assert (again.run("fedavg", 3).path / "model.safetensors").stat().st_mtime_ns == written
    other = in_memory(graph)
    other.text_graph.labels[0] = 1
    with pytest.raises(RunError, match="the data data changed"):
        fedtag.compare(other, ["fedavg"], **asked)


def test_a_name_says_nothing_of_where_it_is_written(graph: fedtag.Graph, tmp_path: Path) -> None:
    home = tmp_path / "deep" / "down"
    asked = {"seeds": 1, "rounds": 1, "clients": 2, "settings": SMALL, "out": home}
    made = fedtag.compare(in_memory(graph, "../../../out; of/here"), ["fedavg"], **asked)
    assert made.failures == {}
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["down"]


def test_an_object_takes_the_place_of_its_earlier_self_and_of_no_package(
    graph: fedtag.Graph, tmp_path: Path, handed_over: None
) -> None:
    assert fedtag.register(spec()) == "sharpened"
    assert fedtag.register(spec(title="Another cell")) == "sharpened"
    assert fedtag.methods().loc["sharpened", "title"] == "Another cell"
    with pytest.raises(ConfigError, match="method 'fedavg' is there already, from fedtag"):
        fedtag.register(spec(name="fedavg"))
    for wrong in (Sharpened, None):
        with pytest.raises(ConfigError, match="give an import string, or an object of such a class"):
            fedtag.register(spec(client=wrong))
    with pytest.raises(ConfigError, match="int is no specification"):
        fedtag.register(1)
    run = fedtag.simulate(graph, spec(), clients=2, rounds=1, settings=SMALL, out=tmp_path / "own")
    METHODS._added = {}
    missing = rf"method 'sharpened', which is not there: .*fedtag.open_run\('{run.path}', METHOD\)"
    with pytest.raises(ConfigError, match=missing):
        fedtag.open_run(run.path)
    with pytest.raises(ConfigError, match=missing):
        run.resume(rounds=2)
    for command in (
        ["predict", str(run.path), graph.source],
        ["simulate", "--resume", str(run.path), "--rounds", "2"],
    ):
        refused = CliRunner().invoke(app, command, env={"COLUMNS": "400"})
        assert f"fedtag.open_run('{run.path}', METHOD)" in refused.stderr
        assert "restore" not in refused.stderr
    assert len(fedtag.open_run(run.path, spec()).predict(graph)) == 60


class Talkative(ClientMethod[None]):
    """It sends what its specification does not declare."""

    def after_training(self, *arguments: Any) -> Any:
        content = super().after_training(*arguments)
        return type(content)(content.tensors, {**content.values, "diary": 1.0})


def test_what_a_method_did_not_declare_does_not_leave(
    graph: fedtag.Graph, tmp_path: Path, handed_over: None
) -> None:
    with pytest.raises(fedtag.errors.QuorumError) as stopped:
        fedtag.simulate(
            graph, spec(client=Talkative()), clients=2, rounds=1, settings=SMALL, out=tmp_path / "talks"
        )
    told = str(stopped.value)
    assert "Sites said: client-00: " in told
    assert "the value 'diary' is not: declare it among the records" in told
    assert f"is in {tmp_path / 'talks' / 'sites' / 'errors.log'}" in told


class Evaluated(ClientMethod[None]):
    """Its loss is a value and no function."""

    def loss(self, model: Any, examples: Any, generator: torch.Generator) -> Any:
        return super().loss(model, examples, generator)()


def test_a_loss_that_is_no_function_is_told_by_run_and_check(
    graph: fedtag.Graph, tmp_path: Path, handed_over: None
) -> None:
    told = r"method Evaluated: loss returned a Tensor, where a function without arguments is wanted"
    with pytest.raises(fedtag.errors.QuorumError, match=told):
        fedtag.simulate(
            graph, spec(client=Evaluated()), clients=2, rounds=1, settings=SMALL, out=tmp_path / "no"
        )
    with pytest.raises(fedtag.errors.QuorumError, match=told):
        check_method(spec(client=Evaluated()))


STOPPED = """
    import os, signal, sys, fedtag
    from fedtag.server.tracking import run_directory
    appended = run_directory.RunDirectory.append_round
    def then_stop(self, row):
        appended(self, row)
        if row.round == 2:
            os.kill(os.getpid(), int(sys.argv[3]))
    run_directory.RunDirectory.append_round = then_stop
    graph = fedtag.Graph.from_folder(sys.argv[1])
    fedtag.simulate(graph, "fedavg", clients=2, rounds=3, seed=1, out=sys.argv[2],
                    settings={"model.hidden": 8, "train.epochs": 1})
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_goes_on_to_the_same_model(
    graph: fedtag.Graph, run: fedtag.Run, tmp_path: Path, how: signal.Signals
) -> None:
    """As Ctrl-C in a cell, or a kernel that is killed."""
    arguments = [graph.source, str(tmp_path / "run"), str(int(how))]
    done = subprocess.run(
        [sys.executable, "-c", dedent(STOPPED), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert how is signal.SIGKILL or "KeyboardInterrupt" in done.stderr
    assert how is signal.SIGKILL or "open_run" in done.stderr
    stopped = fedtag.open_run(tmp_path / "run")
    assert not stopped.finished
    with pytest.raises(RunError, match="go on with resume"):
        _ = stopped.summary
    stopped.resume()
    assert stopped.finished
    assert (stopped.path / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()
