"""`fedtag privacy-audit` as a person calls it, on a run of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner, Result

from fedtag.audits.privacy import Audit, audit_privacy, write_audit
from fedtag.client.data.folder import read_folder
from fedtag.client.data.shadow_nodes import shadow_half
from fedtag.client.data.writing import write_folder
from fedtag.client.methods.fedgc.preparation import kept_preparation, version_with
from fedtag.deploy.cli import app
from fedtag.server.methods.fedgc.release import FILE, digest, read_condensed
from fedtag.server.tracking.run_directory import RunDirectory

ATTACKS = {"confidence", "entropy", "modified entropy", "shadow model"}
Invoke = Callable[..., Result]


@pytest.fixture(scope="module")
def invoke() -> Invoke:
    def call(*arguments: str | Path, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["privacy-audit", *map(str, arguments)])
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.fixture(scope="module")
def mixed_folder(tmp_path_factory: pytest.TempPathFactory, write_mixed_folder: Callable[..., Path]) -> Path:
    """600 nodes with features that say little, so that a model must learn its training nodes by heart."""
    return write_mixed_folder(tmp_path_factory.mktemp("mixed"), 600, 60, 0.7, (90, 150, 330))


@pytest.fixture(scope="module")
def run(mixed_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FedAvg of two clients that goes on until the training nodes are known by heart."""
    out = tmp_path_factory.mktemp("audited") / "run"
    arguments = [
        "simulate",
        "--method",
        "fedavg",
        "--data",
        str(mixed_folder),
        "--clients",
        "2",
        "--rounds",
        "12",
    ]
    settings = ["train.epochs=10", "train.weight-decay=0", "model.dropout=0", "evaluation.every=12"]
    options = [part for setting in settings for part in ("--set", setting)]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out), "--partition", "random", *options])
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def audited(run: Path, invoke: Invoke) -> tuple[Path, Result]:
    return run, invoke(run)


def record_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_an_overfitted_run_is_caught(audited: tuple[Path, Result]) -> None:
    run, result = audited
    record = record_of(run / "privacy.json")
    (target,) = record["targets"]
    assert target["name"] == "released model (fedavg)"
    assert target["member_accuracy"] > 0.95
    attacks = target["groups"]["training nodes"]["attacks"]
    assert set(attacks) == ATTACKS
    # The mean of two clients' models knows the nodes less well than either of them.
    assert max(found["auc"] for found in attacks.values()) >= 0.65
    assert max(found["low"] for found in attacks.values()) > 0.55
    for found in attacks.values():
        assert found["low"] <= found["auc"] <= found["high"]
        assert found["low_rate"] is None, "180 non-members are too few"
    assert record["model"] == RunDirectory.open(run).read_model_card()["fingerprint"]
    assert (record["members"], record["non_members"], record["sites"]) == (90, 180, 2)
    assert record["sites_of_run"] == 2
    assert "test nodes of 2 sites;" in result.stdout
    assert record["shadow_nodes"] + record["spare_nodes"] == 270
    assert {one["name"]: one["verdict"] for one in record["controls"]}["overfitted"] == "holds"
    assert "gives away who was among the training nodes" in result.stdout
    assert "not measured" in result.stdout


def test_a_run_that_has_lost_a_site_is_audited_in_part(run: Path, tmp_path: Path) -> None:
    less = Path(shutil.copytree(run, tmp_path / "less"))
    (gone,) = (less / "sites").glob("*1/meta.json")
    left = read_folder(less / "sites" / "client-00").graph
    shutil.rmtree(gone.parent)
    record = audit_privacy(Audit(less, (), defences=False, models=1, draws=10))
    assert (record["sites"], record["sites_of_run"]) == (1, 2)
    assert record["members"] == int((left.split == 1).sum())
    write_audit(record, less, None)
    for name in ("report.html", "README.md"):
        assert "of 1 of the 2 sites, the folders of the others being absent;" in (less / name).read_text()


def test_the_run_shows_its_audit(audited: tuple[Path, Result]) -> None:
    run, _ = audited
    assert "<h3>Membership inference</h3>" in (run / "report.html").read_text()
    assert "## Membership inference" in (run / "README.md").read_text()


def test_the_record_names_no_node(audited: tuple[Path, Result]) -> None:
    """Lists are curves over rates, or short, so that nothing has an entry a node."""
    run, _ = audited
    record = record_of(run / "privacy.json")

    def lengths(value: Any) -> set[int]:
        if isinstance(value, dict):
            return set().union(*map(lengths, value.values()), set())
        if isinstance(value, list):
            return {len(value)}.union(*map(lengths, value))
        return set()

    assert lengths(record) <= {1, 2, 3, 31}


def test_the_same_audit_gives_the_same_figures(audited: tuple[Path, Result]) -> None:
    run, _ = audited
    again = audit_privacy(Audit(run, (), defences=False))
    assert json.loads(json.dumps(again)) == record_of(run / "privacy.json")


def test_defences_are_compared_on_folders(mixed_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "figures.json"
    found = audit_privacy(Audit(None, (mixed_folder,), defences=True, models=3, draws=100))
    assert write_audit(found, None, out) == (out,)
    record = record_of(out)
    assert record["model"] is None
    assert record["sites_of_run"] is None
    found = {target["name"]: target for target in record["targets"]}
    assert list(found) == ["no defence", "PL", "Reg", "LDP"]
    assert set(found["PL"]["groups"]) == {"training nodes", "pseudo-labelled nodes"}
    assert found["PL"]["groups"]["pseudo-labelled nodes"]["members"] == record["spare_nodes"]

    def area(name: str) -> float:
        return float(found[name]["groups"]["training nodes"]["attacks"]["modified entropy"]["auc"])

    assert area("no defence") > 0.65
    assert max(area("LDP"), area("PL")) < area("no defence") - 0.05
    assert sorted(path.name for path in mixed_folder.iterdir()) == [
        "edges.parquet",
        "features.npy",
        "meta.json",
        "nodes.parquet",
    ]


KINDS = ["released", "self-trained", "condensed", "insider", *["transcript"] * 4]


@pytest.fixture(scope="module")
def condensed_run(mixed_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FedGC of two clients whose self-trained model knows the training nodes by heart."""
    out = tmp_path_factory.mktemp("condensed") / "run"
    arguments = ["simulate", "--method", "fedgc", "--data", str(mixed_folder), "--clients", "2"]
    settings = [
        "fedgc.self-training-rounds=8",
        "fedgc.confidence=0.5",
        "fedgc.learn-from=both",
        "fedgc.min-class-count=2",
        "neighbour-exchange.mode=summed",
        "train.epochs=10",
        "train.weight-decay=0",
        "model.dropout=0",
        "evaluation.every=12",
    ]
    options = [part for setting in settings for part in ("--set", setting)]
    options += ["--rounds", "12", "--ratio", "0.05", "--partition", "random", "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, *options])
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def condensed_audit(condensed_run: Path, invoke: Invoke) -> tuple[Path, Result]:
    return condensed_run, invoke(condensed_run, "--draws", "100")


def strongest_area(target: dict[str, Any], group: str = "training nodes") -> float:
    return max(float(one["auc"]) for one in target["groups"][group]["attacks"].values())


def test_all_that_comes_with_a_condensed_graph_is_attacked(condensed_audit: tuple[Path, Result]) -> None:
    run, result = condensed_audit
    record = record_of(run / "privacy.json")
    assert [target["kind"] for target in record["targets"]] == KINDS
    assert record["condensed"] == read_condensed(run).card.digest
    found = {target["kind"]: target for target in record["targets"]}
    assert found["self-trained"]["member_accuracy"] > 0.95
    assert strongest_area(found["self-trained"]) > 0.6
    # Means of gradients over many nodes tell less of these than a model that knows them by heart.
    assert strongest_area(found["condensed"]) < strongest_area(found["self-trained"])
    # Models of a graph of propagated features fit propagated features.
    assert found["insider"]["test_accuracy"] > found["condensed"]["test_accuracy"]
    assert "This run gives away who was in training, most of all" in " ".join(result.stdout.split())


def test_pseudo_labelled_nodes_are_the_second_group_and_none_of_the_attackers(
    condensed_audit: tuple[Path, Result],
) -> None:
    run, _ = condensed_audit
    record = record_of(run / "privacy.json")
    teacher = read_condensed(run).teacher
    joined = attackers = 0
    for site in sorted((run / "sites").glob("*/meta.json")):
        kept = kept_preparation(site.parent / "state", version_with(teacher))
        assert kept is not None
        outside = torch.from_numpy(read_folder(site.parent).graph.split == 0)
        shadow = shadow_half(outside, record["seed"], site.parent.name)
        assert not (kept.labelled & shadow).any()
        joined += int((kept.labelled & outside).sum())
        attackers += int(shadow.sum())
    assert 0 < joined <= record["spare_nodes"]
    assert record["shadow_nodes"] == attackers
    for target in record["targets"]:
        expected = {"training nodes"}
        if target["kind"] in ("condensed", "insider"):
            expected.add("pseudo-labelled nodes")
            assert target["groups"]["pseudo-labelled nodes"]["members"] == joined
        assert set(target["groups"]) == expected


def test_the_cards_follow_from_the_figures(condensed_audit: tuple[Path, Result]) -> None:
    run, _ = condensed_audit
    for name in ("README.md", "condensed.md"):
        card = " ".join((run / name).read_text().split())
        assert "do not pass anything of it on as what hides its training nodes" in card
        assert "What the self-trained model tells" in card
        for target in record_of(run / "privacy.json")["targets"]:
            attack = list(target["groups"]["training nodes"]["attacks"])[-1]
            assert f"| {target['name']} | 90 training nodes | {attack} |" in card.replace("\\_", "_")
    assert "No membership audit" not in (run / "condensed.md").read_text()
    page = (run / "report.html").read_text()
    assert "do not pass anything of it on as what hides its training nodes" in page


def test_without_what_sites_have_kept_an_insider_is_not_measured(
    condensed_run: Path, mixed_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / FILE
    file.write_bytes((condensed_run / FILE).read_bytes())
    record = audit_privacy(Audit(file, (mixed_folder,), defences=False, models=1, draws=10))
    assert record["model"] is None
    assert [target["kind"] for target in record["targets"]] == ["self-trained", "condensed"]
    assert write_audit(record, file, None) == (tmp_path / "privacy.json", tmp_path / "condensed.md")
    card = " ".join((tmp_path / "condensed.md").read_text().split())
    assert "was not asked with the features that sites keep" in card


def test_a_damaged_condensed_graph_is_named(
    condensed_run: Path, mixed_folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    released = read_condensed(condensed_run)
    short = released.card.model_copy(update={"classes": released.card.classes[:1]})
    entries = {**short.model_dump(), "digest": digest(short, released.tensors)}
    file = tmp_path / FILE
    file.write_bytes(safetensors.torch.save(released.tensors, metadata={"fedtag": json.dumps(entries)}))
    result = invoke(file, "--data", mixed_folder, code=1)
    assert "the graph has labels outside its 1 classes" in " ".join(result.stderr.split())
    file.write_bytes(file.read_bytes()[:100])
    result = invoke(file, "--data", mixed_folder, code=1)
    assert "is no condensed graph of fedtag, or is damaged" in result.stderr


def test_what_cannot_be_audited_is_refused(
    run: Path, mixed_folder: Path, tmp_path: Path, invoke: Invoke, write_feature_folder: Callable[..., Path]
) -> None:
    assert "there is nothing to attack" in invoke(code=2).stderr
    assert "there is nothing to attack" in invoke("--data", mixed_folder, code=2).stderr
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ("model.json", "model.safetensors"):
        (alone / name).write_bytes((run / name).read_bytes())
    assert "has no folders of sites" in invoke(alone, code=1).stderr
    narrow = write_feature_folder(tmp_path / "narrow")
    assert "features have 8 numbers a node" in invoke(alone, "--data", narrow, code=2).stderr
    assert (
        "two folders have the same name"
        in invoke(alone, "--data", mixed_folder, "--data", mixed_folder, code=2).stderr
    )
    (tmp_path / "notes.txt").write_text("x")
    assert "is no release: name a folder" in invoke(tmp_path / "notes.txt", "--data", narrow, code=2).stderr


def test_a_folder_without_test_nodes_has_no_non_members(
    run: Path, mixed_folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    graph = read_folder(mixed_folder).graph
    split = np.where(graph.split == 3, 0, graph.split)
    bare = write_folder(replace(graph, split=split), tmp_path / "bare")
    assert "no class has both training and test nodes" in invoke(run, "--data", bare, code=2).stderr
