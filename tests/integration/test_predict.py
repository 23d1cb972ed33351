"""`fedtag predict`: own folders, new nodes, folders at the edge of the contract, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedtag.client.evidence.store import read_packs, round_file
from fedtag.client.text.encoder import Encoder
from fedtag.deploy.cli import app
from fedtag.server.tracking.release import card_digest

if TYPE_CHECKING:
    from tests.integration.conftest import Federated

MODEL = ("model.safetensors", "model.json")
Rows = list[dict[str, Any]]


def fedtag(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def predict(run: Path, folder: Path, out: Path, *options: object) -> pa.Table:
    result = fedtag("predict", run, folder, "--out", out, *options)
    assert result.exit_code == 0, result.stderr
    return parquet.read_table(out)


def contents(folder: Path) -> dict[Path, tuple[int, int]]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in found}


@pytest.fixture(scope="session")
def model(dance_run: Federated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an institution gets of the run: two files."""
    folder = tmp_path_factory.mktemp("released")
    for name in MODEL:
        shutil.copy(dance_run.directory.path / name, folder)
    return folder


def data_folder(path: Path, nodes: Rows, edges: list[tuple[object, object]], **meta: object) -> Path:
    path.mkdir(parents=True)
    (path / "nodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in nodes), encoding="utf-8")
    lines = ["src,dst", *(f"{source},{target}" for source, target in edges)]
    (path / "edges.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (path / "meta.json").write_text(json.dumps({"name": "new", **meta}), encoding="utf-8")
    return path


def as_written(folder: Path) -> tuple[Rows, list[tuple[object, object]]]:
    """Nodes and edges of a site."""
    edges = parquet.read_table(folder / "edges.parquet").to_pylist()
    nodes = parquet.read_table(folder / "nodes.parquet").to_pylist()
    return nodes, [(edge["src"], edge["dst"]) for edge in edges]


def test_a_sites_own_folder_gives_its_evidence_and_scores(
    dance_run: Federated, model: Path, tmp_path: Path
) -> None:
    best = dance_run.summary.best_round
    rows = {row.client: row for row in dance_run.directory.read_clients() if row.round == best}
    for site in dance_run.sites:
        before = contents(site.folder)
        table = predict(model, site.folder, tmp_path / f"{site.name}.parquet")
        assert contents(site.folder) == before
        nodes = parquet.read_table(site.folder / "nodes.parquet")
        text = dict(zip(nodes["node_id"].to_pylist(), nodes["text"].to_pylist(), strict=True))
        found = table.to_pylist()
        for name in ("node_id", "label", "split"):
            assert table[name].to_pylist() == nodes[name].to_pylist()
        test = [row for row in found if row["split"] == "test"]
        right = sum(row["prediction"] == row["label"] for row in test)
        assert right / len(test) == pytest.approx(rows[site.name].test_accuracy, abs=1e-9)
        kept = read_packs(round_file(site.evidence, best))
        for row, pack in zip(found, kept, strict=True):
            assert row["node_id"] == pack.node
            assert row["evidence_prediction"] == pack.prediction
            if row["scoring"] == "evidence":
                assert row["prediction"] == pack.prediction
                assert row["confidence"] == pytest.approx(pack.confidence, abs=1e-6)
            keys = ("node", "start", "end", "weight", "sha256")
            assert [tuple(span[key] for key in keys) for span in row["evidence"]] == [
                tuple(getattr(chunk, key) for key in keys) for chunk in pack.chunks
            ]
            assert [tuple(near.values()) for near in row["neighbours"]] == [
                (near.node, near.hop, near.weight) for near in pack.neighbours
            ]
            for span in row["evidence"]:
                assert span["text"] == text[span["node"]][span["start"] : span["end"]]
            assert sum(
                row[f"p:{name}"] for name in dance_run.sessions[0].data.text_graph.classes
            ) == pytest.approx(1)


def test_the_same_inputs_give_the_same_bytes(dance_run: Federated, model: Path, tmp_path: Path) -> None:
    folder = dance_run.sites[0].folder
    result = fedtag("predict", dance_run.directory.path, folder, "--out", tmp_path / "a.parquet")
    assert "test nodes" in result.stdout
    assert str(tmp_path / "a.parquet") in result.stdout
    first = parquet.read_table(tmp_path / "a.parquet")
    predict(model, folder, tmp_path / "deep" / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "deep" / "b.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "deep"]
    metadata = {key.decode(): value.decode() for key, value in first.schema.metadata.items()}
    card = json.loads((model / "model.json").read_text())
    assert metadata["fedtag.model"] == card["fingerprint"]
    assert (metadata["fedtag.method"], metadata["fedtag.scoring"]) == ("dance", card["scoring"])
    assert metadata["fedtag.encoder_revision"] == Encoder().revision
    bare = predict(model, folder, tmp_path / "c.parquet", "--no-evidence")
    for name in first.column_names:
        if name.startswith(("evidence", "neighbours")):
            assert bare[name].null_count == len(bare)
        else:
            assert bare[name].equals(first[name]), name


def probabilities(row: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name.startswith("p:")}


def test_nodes_that_no_training_saw(dance_run: Federated, model: Path, tmp_path: Path) -> None:
    own = dance_run.sites[0].folder
    before = predict(model, own, tmp_path / "before.parquet").to_pylist()
    nodes, edges = as_written(own)
    unlabelled = [{"node_id": row["node_id"], "text": row["text"]} for row in nodes]
    new = [
        {"node_id": "new-unlinked", "text": "Reinforcement learning of policies from rewards."},
        {"node_id": "new-empty", "text": None},
    ]
    folder = data_folder(tmp_path / "unlinked" / own.name, unlabelled + new, edges)
    assert "classes" not in json.loads((folder / "meta.json").read_text())
    after = {row["node_id"]: row for row in predict(model, folder, tmp_path / "after.parquet").to_pylist()}
    assert len(after) == len(before) + 2
    assert {row["label"] for row in after.values()} == {row["split"] for row in after.values()} == {None}
    for row in before:
        assert probabilities(after[row["node_id"]]) == pytest.approx(probabilities(row), abs=1e-5)
        assert after[row["node_id"]]["evidence"] == row["evidence"]
    assert [span["node"] for span in after["new-unlinked"]["evidence"]] == ["new-unlinked"]
    assert after["new-empty"]["evidence"] == []


def test_a_new_twin_of_a_node_is_predicted_as_that(dance_run: Federated, model: Path, tmp_path: Path) -> None:
    """It has the same text and the same neighbours, which are all that a prediction reads."""
    nodes, edges = as_written(dance_run.sites[0].folder)
    degree = Counter(end for edge in edges for end in edge)
    original = next(row for row in nodes if row["text"] and degree[row["node_id"]] > 1)["node_id"]
    links = [("twin", b if a == original else a) for a, b in edges if original in (a, b)]
    twin = {**next(row for row in nodes if row["node_id"] == original), "node_id": "twin", "label": None}
    folder = data_folder(tmp_path / "site", [*nodes, twin], edges + links)
    found = {row["node_id"]: row for row in predict(model, folder, tmp_path / "p.parquet").to_pylist()}
    assert found["twin"]["label"] is None
    assert probabilities(found["twin"]) == pytest.approx(probabilities(found[original]), abs=1e-5)
    others = [probabilities(row) for name, row in found.items() if name not in ("twin", original)]
    assert probabilities(found["twin"]) not in [pytest.approx(other, abs=1e-5) for other in others]


@pytest.mark.parametrize("text", ["Neural networks learn. They generalise.", ""])
def test_a_single_node(model: Path, tmp_path: Path, text: str) -> None:
    folder = data_folder(tmp_path / "(one) node!", [{"node_id": 9, "text": text}], [])
    (row,) = predict(model, folder, tmp_path / "one.parquet").to_pylist()
    assert row["node_id"] == 9
    assert 0 < row["confidence"] <= 1
    spans = [(span["node"], span["hop"], span["weight"], span["text"]) for span in row["evidence"]]
    assert spans == ([(9, 0, 1.0, text)] if text else [])


@pytest.fixture(scope="session")
def feature_runs(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]
) -> dict[str, Path]:
    """Runs of two rounds on features, by method, and their data."""
    place = tmp_path_factory.mktemp("features")
    runs = {"data": write_feature_folder(place / "site-a")}
    for method in ("fedavg", "isolated"):
        runs[method] = place / method
        given = ("--method", method, "--data", runs["data"], "--clients", 2, "--rounds", 2)
        done = fedtag("simulate", *given, "--partition", "random", "--out", runs[method])
        assert done.exit_code == 0, done.stderr
    return runs


def refused(run: Path, folder: Path, out: Path, code: int, *options: object, faults: int = 1) -> str:
    result = fedtag("predict", run, folder, "--out", out, *options)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert len(result.stderr.strip().splitlines()) == faults, result.stderr
    return result.stderr.replace("\n", " ")


def test_a_plain_model_has_no_evidence(feature_runs: dict[str, Path], tmp_path: Path) -> None:
    table = predict(feature_runs["fedavg"], feature_runs["data"], tmp_path / "p.parquet")
    assert len(table) == 60
    assert table["evidence"].null_count == table["neighbours"].null_count == 60
    assert set(table["scoring"].to_pylist()) == {"graph"}
    assert b"fedtag.encoder_revision" not in table.schema.metadata
    assert table["node_id"].to_pylist() == list(range(60))


def test_isolated_releases_nothing(feature_runs: dict[str, Path], tmp_path: Path) -> None:
    told = refused(feature_runs["isolated"], feature_runs["data"], tmp_path / "p.parquet", 1)
    assert "released no model" in told
    assert "use a run of centralised, da_dfgas, dance, fedavg" in told


def test_features_and_encoders_are_not_confused(
    feature_runs: dict[str, Path], model: Path, dance_run: Federated, tmp_path: Path
) -> None:
    out = tmp_path / "p.parquet"
    texts = dance_run.sites[0].folder
    plain = tmp_path / "plain"
    shutil.copytree(feature_runs["data"], plain)
    (plain / "features.npy").unlink()
    assert "has no features.npy, but the model" in refused(feature_runs["fedavg"], plain, out, 2)
    shutil.copy(feature_runs["data"] / "features.npy", plain)
    np.save(plain / "features.npy", np.zeros((60, 9), np.float32))
    assert "9 numbers a node, but the model reads 8" in refused(feature_runs["fedavg"], plain, out, 2)
    nodes = [{"node_id": row["node_id"], "text": row["text"]} for row in as_written(texts)[0]]
    both = data_folder(tmp_path / "both", nodes, [])
    np.save(both / "features.npy", np.zeros((len(nodes), 384), np.float32))
    told = refused(model, both, out, 2)
    assert "has features.npy, but the model reads texts by the encoder bundled" in told
    assert not out.exists()


def test_all_that_does_not_fit_is_told_at_once(feature_runs: dict[str, Path], tmp_path: Path) -> None:
    out, wrong = tmp_path / "p.parquet", tmp_path / "wrong"
    shutil.copytree(feature_runs["data"], wrong)
    meta = json.loads((wrong / "meta.json").read_text())
    (wrong / "meta.json").write_text(json.dumps({**meta, "classes": ["a", "b", "z"]}))
    np.save(wrong / "features.npy", np.zeros((60, 9), np.float32))
    for edges in wrong.glob("edges.*"):
        edges.unlink()
    told = refused(feature_runs["fedavg"], wrong, out, 2, faults=3)
    assert "there is no edges.parquet or edges.csv" in told
    assert "classes is ['a', 'b', 'z'], but the model's classes are" in told
    assert "features have 9 numbers a node, but the model reads 8" in told
    (wrong / "features.npy").unlink()
    told = refused(feature_runs["fedavg"], wrong, out, 2, faults=3)
    assert "has no features.npy, but the model was trained on features from such a file; add it, with" in told
    # What reading tells of a file is told once.
    (wrong / "features.npy").write_bytes(b"")
    told = refused(feature_runs["fedavg"], wrong, out, 2, faults=3)
    assert told.count("features.npy") == 1


def test_other_classes_and_broken_folders(
    feature_runs: dict[str, Path], model: Path, dance_run: Federated, tmp_path: Path
) -> None:
    out = tmp_path / "p.parquet"
    told = refused(model, feature_runs["data"], out, 2, faults=2)
    assert "classes is ['a', 'b', 'c'], but the model's classes are" in told
    assert "has features.npy, but the model reads texts" in told
    no_text = data_folder(tmp_path / "no-text", [{"node_id": 1, "label": None}], [])
    assert "column text is missing" in refused(model, no_text, out, 2)
    assert "is not a folder" in refused(model, tmp_path / "nowhere", out, 2)
    assert "is no run directory" in refused(feature_runs["data"], feature_runs["data"], out, 1)
    assert not out.exists()


def test_damaged_and_mixed_models(
    feature_runs: dict[str, Path], model: Path, dance_run: Federated, tmp_path: Path
) -> None:
    out, data = tmp_path / "p.parquet", feature_runs["data"]
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    whole = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "is not the file whose SHA-256" in refused(broken, data, out, 1)
    shutil.copy(feature_runs["fedavg"] / "model.json", broken)
    (broken / "model.safetensors").write_bytes(whole)
    assert "is not the file whose SHA-256" in refused(broken, data, out, 1)
    (broken / "model.json").unlink()
    assert "is no run directory" in refused(broken, data, out, 1)
    shutil.copy(feature_runs["fedavg"] / "model.safetensors", broken)
    card = json.loads((feature_runs["fedavg"] / "model.json").read_text())
    card["classes"].reverse()
    (broken / "model.json").write_text(json.dumps(card))
    assert "was changed: its classes" in refused(broken, data, out, 1)
    # What even a digest made anew does not hide.
    card["classes"].reverse()
    card["model"]["hidden"] = 63
    card["digest"] = card_digest(card)
    (broken / "model.json").write_text(json.dumps(card))
    assert "do not fit the model that its settings describe" in refused(broken, data, out, 1)
    card["scoring"] = "evidence"
    card["digest"] = card_digest(card)
    (broken / "model.json").write_text(json.dumps(card))
    assert "the way of scoring 'evidence'" in refused(broken, data, out, 1)
    card["method"] = "registry"
    card["digest"] = card_digest(card)
    (broken / "model.json").write_text(json.dumps(card))
    told = refused(broken, data, out, 2)
    assert "was made with the method 'registry', which is not there" in told
    assert "METHOD), and predict or resume from there; else install the package" in told
    assert not out.exists()


def test_where_predictions_cannot_go(feature_runs: dict[str, Path], tmp_path: Path) -> None:
    data, run = feature_runs["data"], feature_runs["fedavg"]
    before = contents(data)
    assert "name a file that ends with .parquet" in refused(run, data, tmp_path / "p.csv", 2)
    (tmp_path / "x.parquet").mkdir()
    assert "name a file that ends with .parquet" in refused(run, data, tmp_path / "x.parquet", 2)
    assert "is a file of the folder itself" in refused(run, data, data / "nodes.parquet", 2)
    assert contents(data) == before
    os.mkfifo(tmp_path / "pipe.parquet")
    assert "is no regular file" in refused(run, data, tmp_path / "pipe.parquet", 2)
    assert (tmp_path / "pipe.parquet").is_fifo()
    (tmp_path / "file").touch()
    assert "which is no folder" in refused(run, data, tmp_path / "file" / "deep" / "p.parquet", 2)
    out = tmp_path / "p.parquet"
    assert "device 'tpu'" in refused(run, data, out, 2, "--device", "tpu")
    assert "site name '../x'" in refused(run, data, out, 2, "--name", "../x")
