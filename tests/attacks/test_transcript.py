"""What a server that keeps to the protocol saw: who was in training, told from sums of gradients and from updates.

Each defence has a control: the same attack on the same nodes with the defence off.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fedtag.audits.privacy import Audit, audit_privacy, write_audit
from fedtag.audits.transcript import transcripts_of
from fedtag.client.attacks.attack import areas
from fedtag.client.attacks.controls import member_groups
from fedtag.client.attacks.population import population
from fedtag.client.attacks.transcript import INSIDER, PROJECTION
from fedtag.client.run.opened_site import opened_site
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.deploy.cli import app
from fedtag.runs.progress import LOGGED
from fedtag.runs.simulation import PreparedRun, prepare, run_in_process

CHANCE = 0.64
"""Above it lies a twentieth of the areas by guessing, of 45 members and 90 others in four attacks."""
CLASSES, UPDATES = "class gradients", "updates of self-training"
MASKED = {"privacy.secure-aggregation": True}
NOISE = {
    "fedgc.dp-mode": "local",
    "fedgc.learn-from": "training",
    "fedgc.fine-tune-steps": 0,
    "fedgc.dp-clip": 0.5,
    "fedgc.dp-noise": 6.0,
}
DISTRIBUTED = {**NOISE, **MASKED, "fedgc.dp-mode": "distributed", "aggregation.weights": "uniform"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_mixed_folder: Callable[..., Path]) -> Path:
    """240 nodes, of which training and test nodes are alike."""
    return write_mixed_folder(tmp_path_factory.mktemp("seen"), 240, 40, 1.0, (45, 60, 150))


Run = Callable[..., Path]
Areas = Callable[..., dict[str, dict[str, float]]]


@pytest.fixture(scope="module")
def prepared(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., PreparedRun]:
    """A simulated run of three sites that is to be carried out; equal ones are prepared once."""

    @cache
    def made(changes: tuple[tuple[str, Any], ...]) -> PreparedRun:
        settings = {
            "method": "fedgc",
            "data.source": str(folder),
            "data.partition": "random",
            "clients": 3,
            "rounds": 5,
            "ratio": 0.05,
            "device": "cpu",
            "out": str(tmp_path_factory.mktemp("run") / "run"),
            "evaluation.every": 5,
            "fedgc.self-training-rounds": 2,
            "fedgc.min-class-count": 1,
            "fedgc.hidden": 8,
            "fedgc.steps": 2,
            "fedgc.model-steps": 5,
            "model.hidden": 8,
            "model.dropout": 0.0,
            "privacy.block-rounds": 8,
        }
        return prepare(RunConfig.from_flat({**settings, **dict(changes)}))

    return lambda **changes: made(tuple(sorted(changes.items())))


@pytest.fixture(scope="module")
def run(prepared: Callable[..., PreparedRun]) -> Run:
    """The directory of such a run after it; equal ones are done once."""

    def simulated(**changes: Any) -> Path:
        ready = prepared(**changes)
        if not ready.directory.finished:
            with pytest.MonkeyPatch.context() as patch:
                # The report has tests of its own, and takes longer than a run of this size.
                patch.setattr("fedtag.server.run.conclusion.write_report", lambda runs, out: None)
                run_in_process(ready, LOGGED)
        return ready.directory.path

    return simulated


@pytest.fixture(scope="module")
def told(prepared: Callable[..., PreparedRun]) -> Areas:
    """The area of each attack on each kind of sums of a run, which is carried out for the attack alone."""

    @cache
    def measured(path: Path) -> dict[str, dict[str, float]]:
        config = RunConfig.from_flat({"method": "fedgc"})
        names = sorted(meta.parent.name for meta in (path / "sites").glob("*/meta.json"))
        sites = [Site(name, path / "sites" / name, path / "unused", path / "cache", "cpu") for name in names]
        graphs = [opened_site(site, config).data.graph for site in sites]
        people = population(graphs, names, 0)
        groups = member_groups(people)
        assert (len(groups.members), len(groups.others)) == (45, 90)
        return {
            one.name: {attack: float(areas(scores[None], groups)[0]) for attack, scores in one.scores.items()}
            for one in transcripts_of(path, "cpu", path / "cache", people, names, LOGGED)
        }

    return lambda **changes: measured(prepared(**changes).directory.path)


def strongest(found: dict[str, dict[str, float]], kind: str) -> float:
    return max(area for name, one in found.items() if name.startswith(kind) for area in one.values())


def test_sums_of_training_nodes_give_them_away(told: Areas) -> None:
    """The control of all that follows."""
    found = told(**{"fedgc.learn-from": "both"})
    alone, summed = found[f"{CLASSES}, of each site"], found[f"{CLASSES}, summed over sites"]
    assert alone[INSIDER] > 0.95
    assert summed[INSIDER] > 0.95
    # Whoever knows one row alone learns something, and less.
    assert 0.65 < alone[PROJECTION] < alone[INSIDER]


def test_sums_of_pseudo_labelled_nodes_do_not(told: Areas) -> None:
    found = told()
    assert strongest(found, CLASSES) < CHANCE
    # The model behind the pseudo-labels was learned from training nodes, and its updates say so.
    assert strongest(found, UPDATES) > 0.75


def test_masks_hide_sites_and_leave_sums(told: Areas) -> None:
    found = told(**MASKED, **{"fedgc.learn-from": "both"})
    assert set(found) == {f"{kind}, summed over sites" for kind in (CLASSES, UPDATES)}
    clear = told(**{"fedgc.learn-from": "both"})
    for name, areas_ in found.items():
        assert areas_ == pytest.approx(clear[name], abs=0.03)
    assert found[f"{CLASSES}, summed over sites"][INSIDER] > 0.95


def test_under_group_rules_each_group_is_read(told: Areas) -> None:
    """Nine sites in three groups, of which the server sees three sums; in one sum over all it sees that alone."""
    settings = {**MASKED, "clients": 9, "rounds": 3, "fedgc.self-training-rounds": 2}
    groups = told(**settings)
    whole = told(**settings, **{"aggregation.rule": "mean"})
    assert set(groups) - set(whole) == {f"{UPDATES}, of each group"}
    assert strongest(groups, UPDATES) > strongest(whole, UPDATES) + 0.05


@pytest.mark.parametrize("settings", [NOISE, DISTRIBUTED], ids=["local", "distributed"])
def test_noise_for_nodes_hides_them(
    told: Areas, settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other noise in every run would leave a guess above the bound now and then.
    noise = np.random.default_rng(0)
    monkeypatch.setattr("fedtag.client.methods.fedgc.method.entropy_generator", lambda: noise.bytes)
    assert strongest(told(**settings), CLASSES) < CHANCE
    # Clipping alone does not.
    bare = told(**{**settings, "fedgc.dp-noise": 1e-6})
    assert strongest(bare, CLASSES) > 0.95
    # Nothing else of training nodes leaves a site.
    assert {name.partition(",")[0] for name in bare} == {CLASSES}


def test_a_run_is_judged_by_whatever_tells_most(run: Run) -> None:
    path = run(**{"fedgc.learn-from": "both"})
    record = audit_privacy(Audit(path, (), defences=False, models=1, draws=20))
    most = {target["name"]: max_area(target) for target in record["targets"]}
    assert {target["kind"] for target in record["targets"]} == {
        "released",
        "self-trained",
        "condensed",
        "insider",
        "transcript",
    }
    name = max(most, key=lambda key: most[key])
    assert name.startswith((CLASSES, UPDATES))
    assert most[name] > 0.95
    write_audit(record, path, None)
    for file in ("README.md", "condensed.md", "report.html"):
        text = " ".join((path / file).read_text().split())
        assert f"This run gives away who was in training, most of all by the {name}" in text
        assert f"(AUC {most[name]:.3f})" in text


def max_area(target: dict[str, Any]) -> float:
    return max(found["auc"] for found in target["groups"]["training nodes"]["attacks"].values())


def test_targets_are_asked_for_by_name(run: Run) -> None:
    path = run()
    kinds = {
        "release": {"released", "condensed", "insider"},
        "self-trained": {"self-trained"},
        "transcript": {"transcript"},
    }
    for target, wanted in kinds.items():
        record = audit_privacy(
            Audit(path, (), defences=False, models=1, draws=10, targets=(target,)),
        )
        assert {one["kind"] for one in record["targets"]} == wanted
        if target == "self-trained":
            (name,) = {one["name"] for one in record["targets"]}
    # With labels of its own alone, the release goes without the model that gave them; the server has it.
    assert name == "self-trained model, not released"


def audit_self_trained(path: Path) -> dict[str, Any]:
    return audit_privacy(Audit(path, (), defences=False, models=1, draws=10, targets=("self-trained",)))


def test_what_cannot_be_seen_again_is_refused(run: Run, folder: Path, tmp_path: Path) -> None:
    path = run()

    def refused(pattern: str, where: Path | None, *more: str) -> None:
        result = CliRunner().invoke(
            app, ["privacy-audit", *([str(where)] if where else []), "--target", *more]
        )
        assert result.exit_code != 0
        assert pattern in " ".join(result.stderr.split())

    refused("--target transcripts: use release, self-trained, transcript", path, "transcripts")
    refused("is of the run's own sites: leave --data out", path, "transcript", "--data", str(folder))
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ("model.json", "model.safetensors", "metrics.jsonl"):
        (alone / name).write_bytes((path / name).read_bytes())
    refused("has no folders of sites in sites/, as only simulations have", alone, "transcript")
    bare = run(**NOISE)
    with pytest.raises(
        ConfigError, match="has no self-trained model, neither released nor in its checkpoint"
    ):
        audit_self_trained(bare)
