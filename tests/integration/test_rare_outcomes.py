"""Federations in which one node in twelve has the outcome that matters."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    precision_recall_fscore_support,
    roc_auc_score,
)
from sklearn.utils.class_weight import compute_sample_weight

import fedtag
from fedtag.client.methods.base import GRAPH, ClientMethod
from fedtag.client.methods.dance import method as dance
from fedtag.client.methods.dance.training import CoreLoss
from fedtag.client.train.examples import label_weights
from fedtag.common.config import RunConfig
from fedtag.common.wording.scoring import METRICS, column
from fedtag.errors import ConfigError
from tests.objects import method_spec

if TYPE_CHECKING:
    from tests.tiny import Tiny

ROUNDS, NODES = 10, 600
CLASSES = ["well", "ill"]
RARE = 12
SETTINGS = {"model.hidden": 8, "model.dropout": 0.0, "train.epochs": 1, "train.learning-rate": 0.02}
QUICK = {"condenser.outer-loops": 2, "condenser.inner-loops": 2, "condenser.hidden": 4}
AREA_ERROR = 0.03
"""At most, of a class with ten nodes or more (`common/numerics/ranking.py`)."""

Scored = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def site(number: int) -> fedtag.Graph:
    """A site whose ill nodes look a little different; the last one has none of them to learn from."""
    rng = np.random.default_rng(number)
    ill = np.arange(NODES) % RARE == 0
    features = rng.standard_normal((NODES, 6)).astype(np.float32)
    features[ill, 0] += 1.2
    split = rng.choice(["train", "val", "test"], NODES, p=[0.4, 0.2, 0.4])
    if number == 2:
        split[ill & (split == "train")] = "test"
    pairs = rng.integers(0, NODES, (NODES, 2))
    pairs = pairs[(ill[pairs[:, 0]] == ill[pairs[:, 1]]) & (pairs[:, 0] != pairs[:, 1])]
    nodes = pd.DataFrame({"id": np.arange(NODES), "state": np.where(ill, "ill", "well"), "split": split})
    return fedtag.Graph.from_pandas(
        nodes, pd.DataFrame(pairs, columns=["a", "b"]), id="id", label="state", split="split", src="a", dst="b",
        features=features, classes=CLASSES, name=f"site-{number}",
    )  # fmt: skip


@dataclass
class Watched(ClientMethod[None]):
    """FedAvg that keeps the logits that are scored, and the weights that are learned with, by site."""

    scored: dict[str, list[Scored]] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)

    def counts(self, logits: Any, data: Any, context: Any) -> dict[str, torch.Tensor]:
        if GRAPH in logits:
            graph = data.graph
            kept = (logits[GRAPH].double().softmax(1).cpu(), graph.val_mask, graph.test_mask)
            self.scored.setdefault(data.site.name, []).append(kept)
        return super().counts(logits, data, context)

    def trained(self, model: Any, examples: Any, data: Any, context: Any) -> Any:
        self.weights[data.site.name] = examples
        return super().trained(model, examples, data, context)


@dataclass(frozen=True)
class Done:
    """A run, with what its sites scored and learned with."""

    run: fedtag.Run
    seen: Watched

    def probabilities(self, graphs: list[fedtag.Graph], number: int, subset: str) -> list[tuple[Any, Any]]:
        """Labels and probabilities of a round's model by site; 1 is ill."""
        found = []
        for graph, rounds in zip(
            graphs, (self.seen.scored[name] for name in sorted(self.seen.scored)), strict=True
        ):
            assert len(rounds) == ROUNDS
            said, val, test = rounds[number - 1]
            kept = (val if subset == "val" else test).numpy()
            y = (graph.nodes["label"] == "ill").to_numpy().astype(int)
            found.append((y[kept], said.numpy()[kept]))
        return found


def by_scikit_learn(y: Any, p: Any) -> dict[str, float | None]:
    """Every metric of labels and probabilities."""
    said, both = p.argmax(1), len(set(y)) == 2
    return {
        "accuracy": accuracy_score(y, said),
        "macro-f1": f1_score(y, said, average="macro"),
        "balanced-accuracy": float(np.mean([np.mean(said[y == one] == one) for one in set(y)])),
        "auroc": roc_auc_score(y, p[:, 1]) if both else None,
        "auprc": average_precision_score(y, p[:, 1]) if both else None,
    }


@pytest.fixture(scope="module")
def sites() -> list[fedtag.Graph]:
    return [site(number) for number in range(3)]


@pytest.fixture(scope="module")
def done(sites: list[fedtag.Graph], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Done]:
    """Runs with settings; equal ones are carried out once."""
    known: dict[tuple[tuple[str, Any], ...], Done] = {}

    def simulated(**settings: Any) -> Done:
        key = tuple(sorted(settings.items()))
        if key not in known:
            seen = Watched()
            name = f"watched-{len(known)}"
            given = {**SETTINGS, **{one.replace("_", "."): value for one, value in settings.items()}}
            run = fedtag.simulate(
                sites, method_spec(name, seen), rounds=ROUNDS, seed=0, settings=given, progress=False,
                out=tmp_path_factory.mktemp("rare") / "run",
            )  # fmt: skip
            known[key] = Done(run, seen)
        return known[key]

    return simulated


def chosen(done: Callable[..., Done], metric: str) -> Done:
    return done(evaluation_metric=metric)


def balanced(done: Callable[..., Done], **more: Any) -> Done:
    return done(**{"train_class-weights": "balanced", **more})


def recall(done: Done) -> float:
    return float(done.run.classes.loc["ill", "recall"])


def test_scores_of_every_round_are_those_of_scikit_learn(
    done: Callable[..., Done], sites: list[fedtag.Graph]
) -> None:
    found = chosen(done, "accuracy")
    for number, row in found.run.rounds.set_index("round").iterrows():
        for subset in ("val", "test"):
            parts = found.probabilities(sites, number, subset)
            exact = by_scikit_learn(*(np.concatenate(one) for one in zip(*parts, strict=True)))
            for metric, value in exact.items():
                near = AREA_ERROR if metric in ("auroc", "auprc") else 1e-9
                assert row[f"{subset}_{column(metric)}"] == pytest.approx(value, abs=near), (metric, number)
    rows = found.run.clients
    for number, (y, p) in enumerate(found.probabilities(sites, ROUNDS, "test")):
        (row,) = rows[(rows["round"] == ROUNDS) & (rows["client"] == f"site-{number}")].to_dict("records")
        for metric, value in by_scikit_learn(y, p).items():
            assert row[f"test_{column(metric)}"] == pytest.approx(value, abs=AREA_ERROR), metric


@pytest.mark.parametrize("metric", METRICS)
def test_the_released_round_is_best_by_the_metric(
    done: Callable[..., Done], sites: list[fedtag.Graph], metric: str
) -> None:
    found = chosen(done, metric)
    assert found.run.summary["metric"] == metric
    means = []
    for number in range(1, ROUNDS + 1):
        parts = found.probabilities(sites, number, "val")
        valued = [(len(y), value) for y, p in parts if (value := by_scikit_learn(y, p)[metric]) is not None]
        means.append(sum(nodes * value for nodes, value in valued) / sum(nodes for nodes, _ in valued))
    near = AREA_ERROR if metric in ("auroc", "auprc") else 1e-9
    assert found.run.rounds["selection"].tolist() == pytest.approx(means, abs=near)
    best = found.run.summary["best_round"]
    assert means[best - 1] >= max(means) - 2 * near
    if near < AREA_ERROR:
        assert best == 1 + means.index(max(means))


def test_accuracy_releases_a_model_that_finds_nobody_and_other_metrics_one_that_does(
    done: Callable[..., Done],
) -> None:
    by_accuracy = chosen(done, "accuracy")
    assert by_accuracy.run.summary["test_accuracy"] > 0.88
    assert recall(by_accuracy) < 0.15
    for metric in ("macro-f1", "balanced-accuracy", "auprc"):
        other = chosen(done, metric)
        # Training is the same; what is released is not.
        assert other.run.rounds["test_auprc"].equals(by_accuracy.run.rounds["test_auprc"])
        assert other.run.summary["best_round"] != by_accuracy.run.summary["best_round"]
        assert recall(other) > recall(by_accuracy) + 0.1
        assert other.run.summary["test_balanced_accuracy"] > by_accuracy.run.summary["test_balanced_accuracy"]


def test_balanced_weights_find_the_rare_class(done: Callable[..., Done]) -> None:
    plain, weighted = chosen(done, "accuracy"), balanced(done)
    assert recall(weighted) > recall(plain) + 0.4
    assert weighted.run.summary["test_balanced_accuracy"] > plain.run.summary["test_balanced_accuracy"] + 0.1


def test_weights_are_scikit_learns_of_the_own_training_labels(
    done: Callable[..., Done], sites: list[fedtag.Graph]
) -> None:
    kept = balanced(done).seen.weights
    assert sorted(kept) == [f"site-{number}" for number in range(3)]
    for name, graph in zip(sorted(kept), sites, strict=True):
        examples, table = kept[name], graph.nodes
        trained = (table["split"] == "train").to_numpy()
        exact = compute_sample_weight("balanced", table["label"][trained].to_numpy())
        assert examples.weight.numpy()[trained] == pytest.approx(exact, rel=1e-6)
        assert not examples.weight.numpy()[~trained].any()
    # The last site has one class to learn: all of its labels weigh 1.
    assert set(kept["site-2"].weight.unique().tolist()) == {0.0, 1.0}


def test_none_is_the_run_without_the_setting(done: Callable[..., Done]) -> None:
    plain, none = done(), done(**{"train_class-weights": "none"})
    assert all(examples.weight is None for examples in none.seen.weights.values())
    model = (plain.run.path / "model.safetensors").read_bytes()
    assert (none.run.path / "model.safetensors").read_bytes() == model
    assert (balanced(done).run.path / "model.safetensors").read_bytes() != model


def test_the_table_of_classes_is_that_of_the_predictions(
    done: Callable[..., Done], sites: list[fedtag.Graph]
) -> None:
    run = fedtag.simulate(
        sites, "fedavg", rounds=ROUNDS, seed=0, progress=False, out=done().run.path.parent / "fedavg",
        settings={**SETTINGS, "train.class-weights": "balanced", "evaluation.metric": "auprc"},
    )  # fmt: skip
    said = pd.concat([run.predict(graph) for graph in sites])
    said = said[said["split"] == "test"]
    y, p = (said["label"] == "ill").to_numpy(), said["p:ill"].to_numpy()
    assert run.classes.index.tolist() == CLASSES
    precision, found, f1, nodes = precision_recall_fscore_support(
        said["label"], said["prediction"], labels=CLASSES
    )
    assert run.classes["nodes"].tolist() == nodes.tolist()
    for name, exact in (("precision", precision), ("recall", found), ("f1", f1)):
        assert run.classes[name].tolist() == pytest.approx(exact.tolist())
    assert run.classes["auroc"].tolist() == pytest.approx([roc_auc_score(y, p)] * 2, abs=AREA_ERROR)
    areas = [average_precision_score(~y, 1 - p), average_precision_score(y, p)]
    assert run.classes["auprc"].tolist() == pytest.approx(areas, abs=AREA_ERROR)
    assert run.summary["test_balanced_accuracy"] == pytest.approx(
        balanced_accuracy_score(said["label"], said["prediction"])
    )
    assert run.summary["test_auprc"] == run.classes.loc["ill", "auprc"]
    report, card = (
        run.report().read_text(encoding="utf-8"),
        (run.path / "README.md").read_text(encoding="utf-8"),
    )
    shown = f"{100 * run.classes.loc['ill', 'auprc']:.2f}%"
    for page in (report, card):
        assert "ill" in page
        assert "AUPRC" in page
        assert shown in page
    assert "<h3>Classes</h3>" in report
    assert "by the mean AUPRC over clients" in card
    assert run.plot().axes[0].get_ylabel() == "AUPRC"


def test_a_comparison_is_by_the_metric(sites: list[fedtag.Graph], tmp_path: Path) -> None:
    made = fedtag.compare(
        sites, ["fedavg"], seeds=[0], rounds=3, out=tmp_path / "made", progress=False,
        settings={**SETTINGS, "evaluation.metric": "auprc", "train.class-weights": "balanced"},
    )  # fmt: skip
    run = made.run("fedavg", 0)
    (line,) = made.table.to_dict("records")
    assert line["val_auprc"] == run.summary["val_auprc"]
    for metric in METRICS:
        assert line[f"test_{column(metric)}"] == run.summary[f"test_{column(metric)}"]
    assert made.runs["test_auprc"].tolist() == [run.summary["test_auprc"]]
    assert made.classes["class"].tolist() == CLASSES
    assert made.classes["recall"].tolist() == run.classes["recall"].tolist()
    assert made.plot().axes[0].get_xlabel().startswith("test AUPRC")
    assert made.plot(metric="auroc").axes[0].get_xlabel().startswith("test AUROC")
    with pytest.raises(ConfigError, match="metric = 'luck': use one of accuracy, macro-f1"):
        made.plot(metric="luck")
    with (made.path / "classes.csv").open(encoding="utf-8") as file:
        assert [row["class"] for row in csv.DictReader(file)] == CLASSES
    text = (made.path / "comparison.md").read_text(encoding="utf-8")
    assert "validation and test: AUPRC" in text
    assert "Test AUPRC" in (made.path / "comparison.html").read_text(encoding="utf-8")


@pytest.fixture
def skewed(tiny: Tiny, tmp_path: Path) -> Tiny:
    """Tiny federations in which most labels of one class are another's."""

    def write(path: Path, **more: Any) -> Path:
        table = tiny.write(path, **more) / "nodes.csv"
        header, *lines = table.read_text(encoding="utf-8").splitlines()
        changed = [
            line.replace(",b,", ",a,") if number % 6 < 4 else line for number, line in enumerate(lines)
        ]
        table.write_text("\n".join([header, *changed]) + "\n", encoding="utf-8")
        return path

    return replace(tiny, write=write, data=tmp_path, folders={})


def test_dance_weighs_the_classes_of_its_core(skewed: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pseudo-labels count in their class with the weight that they have."""
    made: list[Watching] = []

    class Watching(CoreLoss):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.trained = given[1].graph.train_mask[given[3].nodes]
            made.append(self)

    monkeypatch.setattr(dance, "CoreLoss", Watching)
    spreads = {}
    for weights in ("none", "balanced"):
        made.clear()
        run = skewed({"method": "dance", "rounds": 2, "ratio": 0.5, "train.class-weights": weights})
        assert run.error is None
        assert len(made) == 2 * 3
        spreads[weights] = []
        for loss in made:
            before = label_weights(loss.labels, loss.trained, loss.config.pseudo_label_weight)
            sums = torch.zeros(3, dtype=torch.float64).index_add(
                0, loss.labels.clamp(min=0), loss.weight.double()
            )
            sums = sums[sums > 0]
            spreads[weights].append(float(sums.max() / sums.min()))
            assert float(loss.weight.sum()) == pytest.approx(float(before.sum()), rel=1e-5)
            assert ((loss.weight > 0) == (before > 0)).all()
    assert spreads["balanced"] == pytest.approx([1.0] * 6, abs=1e-5)
    assert max(spreads["none"]) > 1.1


def test_fedgc_refuses_them_with_the_reason() -> None:
    RunConfig.from_flat({"method": "fedgc"})
    with pytest.raises(
        ConfigError, match="fedgc matches the gradients of each class by itself: set it to none"
    ):
        RunConfig.from_flat({"method": "fedgc", "train.class-weights": "balanced"})


@pytest.mark.parametrize(
    "settings", [{"method": "fedc4", **QUICK}, {"method": "da_dfgas"}], ids=["fedc4", "da_dfgas"]
)
def test_other_methods_learn_with_them(skewed: Tiny, settings: dict[str, object]) -> None:
    runs = [
        skewed({**settings, "rounds": 2, "train.class-weights": weights}) for weights in ("none", "balanced")
    ]
    for run in runs:
        assert run.error is None
        assert len(run.lines("metrics")) == 2
    one, other = (run.state for run in runs)
    assert any(not torch.equal(value, other[name]) for name, value in one.items())


def test_examples_of_an_own_kind_are_refused_with_the_remedy(
    sites: list[fedtag.Graph], tmp_path: Path
) -> None:
    class Own(ClientMethod[None]):
        def examples(self, model: Any, data: Any, context: Any) -> tuple[Any, dict[str, Any]]:
            return object(), {}

    with pytest.raises(fedtag.errors.FedtagError, match="set it to none, or override `balanced`"):
        fedtag.simulate(
            sites, method_spec("own-examples", Own()), rounds=1, progress=False, out=tmp_path / "run",
            settings={**SETTINGS, "train.class-weights": "balanced"},
        )  # fmt: skip
