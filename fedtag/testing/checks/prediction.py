"""Predicting with what a run released, at each of its own sites."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedtag.client.data.text_graph import TEST, VAL
from fedtag.client.evidence.store import read_packs, round_file
from fedtag.common.errors import RunError
from fedtag.runs.prediction import Predicted, predict
from fedtag.server.methods.assembly import method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.testing.subject import Subject, require

NEAR = 1e-9
LOGITS = 1e-6
SUBSETS = (("val", VAL), ("test", TEST))


def predictions(subject: Subject) -> Mapping[str, Predicted]:
    """By site, from the two files that are released."""
    if not subject.releases:
        subject.waive("releases nothing that predicts")
    trial, model = subject.plain, subject.folder / "released"
    if not subject.predicted:
        model.mkdir(exist_ok=True)
        for name in ("model.safetensors", "model.json"):
            shutil.copy(trial.path / name, model)
        for site in trial.watch.sites:
            subject.predicted[site.name] = predict(model, site.folder, subject.folder / "cache", "cpu")
    return subject.predicted


def predictions_score_as_the_run_did(subject: Subject) -> None:
    """At the released round, over the nodes by which it was judged."""
    trial, made = subject.plain, predictions(subject)
    summary, rows = trial.run.summary, released_rows(subject)
    judging = trial.watch.notes.judging
    right = {name: one.classes == one.data.labels for name, one in made.items()}
    for part, code in SUBSETS:
        chosen = {name: one.data.split == code for name, one in made.items()}
        if part == "val":
            chosen = {name: chosen[name] & judging[name] for name in chosen}
        # A released model predicts in the shared architecture, where a client scores its own.
        alike = [name for name, one in made.items() if one.scoring == one.release.card.scoring]
        if subject.config.privacy.hide_statistics:
            pooled = np.concatenate([right[name][chosen[name]] for name in made]).mean()
            require(abs(pooled - summary[f"{part}_accuracy"]) < NEAR, subject, told(part))
            continue
        for name in alike:
            own = right[name][chosen[name]].mean()
            require(abs(own - rows[name][f"{part}_accuracy"]) < NEAR, subject, told(part))


def told(part: str) -> str:
    """What is broken where predictions and scores differ."""
    return f"predicts {part} nodes otherwise than it scored them"


def every_node_gets_probabilities(subject: Subject) -> None:
    """They come to 1."""
    for name, one in predictions(subject).items():
        shares = one.prediction.logits.softmax(1)
        require(len(shares) == one.data.num_nodes, subject, f"does not predict every node of {name}")
        near = bool(((shares.sum(1) - 1).abs() < 1e-4).all())
        require(near, subject, "predicts probabilities that do not come to 1")


def the_way_of_scoring_is_the_one_that_validation_chose(subject: Subject) -> None:
    """Pooled over clients, at the released round; the first of equals."""
    paths = method_of(subject.config).scoring_paths(ServerContext(subject.config))
    rows = released_rows(subject).values()
    pooled = {
        path: sum((row["val_nodes"] or 0) * row["scores"].get(f"val_accuracy_{path}", 0.0) for row in rows)
        for path in (paths if len(paths) > 1 else ())
    }
    best = max(paths, key=lambda path: pooled.get(path, 0.0))
    for one in predictions(subject).values():
        chosen = one.release.card.scoring
        require(chosen == best, subject, f"predicts by '{chosen}', where validation chose '{best}'")


def evidence_is_that_of_the_run(subject: Subject) -> None:
    """Where its clients keep any; else there is none."""
    number = subject.plain.run.summary["best_round"]
    for site in subject.plain.watch.sites:
        one = predictions(subject)[site.name]
        if not subject.config.spec.traits.keeps_evidence:
            require(one.prediction.packs is None, subject, "has evidence, which it says that it keeps not")
            continue
        kept = read_packs(round_file(site.evidence, number))
        require(one.prediction.packs == kept, subject, "predicts by other evidence than clients kept")
        if one.release.card.scoring == "evidence":
            confidence = one.prediction.logits.softmax(1).max(1).values.numpy()
            own = [pack.confidence for pack in kept]
            require(
                np.allclose(confidence, own, rtol=0, atol=LOGITS), subject, "is as sure as no evidence says"
            )
            words = [one.data.classes[place] for place in one.classes]
            require(words == [pack.prediction for pack in kept], subject, "predicts what no evidence says")


def what_releases_nothing_says_so(subject: Subject) -> None:
    """Whoever would predict is told why nothing can."""
    if subject.releases:
        subject.waive("releases something")
    site = subject.plain.watch.sites[0]
    try:
        predict(subject.plain.path, site.folder)
    except RunError as error:
        require("released no model, as its method leaves" in str(error), subject, f"is refused with: {error}")
    else:
        require(False, subject, "predicts, which it says that it cannot")


def released_rows(subject: Subject) -> Mapping[str, dict[str, Any]]:
    """Of clients.jsonl, at the released round, by client."""
    number = subject.plain.run.summary["best_round"]
    return {row["client"]: row for row in subject.plain.clients if row["round"] == number}
