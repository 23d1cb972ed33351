"""Predicting with what a run of each method released, at each of its own sites."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from fedtag.client.data.text_graph import TEST, VAL
from fedtag.client.evidence.packs import read_packs
from fedtag.common.errors import RunError
from fedtag.runs.prediction import Predicted, predict
from fedtag.server.methods.assembly import method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.tracking.run_directory import RunDirectory

Finished = Any


@pytest.fixture(scope="module")
def predicted(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predicted]:
    """By site, from the two files that are released; nothing where models stay with the clients."""
    model = tmp_path_factory.mktemp("model")
    if not (finished.path / "run" / "model.safetensors").exists():
        return {}
    for name in ("model.safetensors", "model.json"):
        shutil.copy(finished.path / "run" / name, model)
    folders = sorted((finished.path / "data").iterdir())
    return {folder.name: predict(model, folder, finished.path / "cache", "cpu") for folder in folders}


def test_accuracies_are_those_of_the_run(finished: Finished, predicted: dict[str, Predicted]) -> None:
    rows = [row for row in finished.clients if row["round"] == finished.summary.best_round]
    if not predicted:
        assert finished.config.method == "isolated"
        with pytest.raises(RunError, match="released no model, as its method leaves"):
            predict(finished.path / "run", next(iter((finished.path / "data").iterdir())))
        return
    assert predicted.keys() == {row["client"] for row in rows}
    if finished.config.privacy.hide_statistics:
        # The server knows sums only.
        for subset, code in (("val", VAL), ("test", TEST)):
            right = [
                (made.classes == made.data.labels)[made.data.split == code] for made in predicted.values()
            ]
            told = getattr(finished.summary, f"{subset}_accuracy")
            assert np.concatenate(right).mean() == pytest.approx(told, abs=1e-9)
        return
    for row in rows:
        made = predicted[row["client"]]
        if made.release.card.scoring == "own":
            continue  # a released model predicts in the shared architecture, a client scores its own
        right = made.classes == made.data.labels
        for subset, code in (("val", VAL), ("test", TEST)):
            if subset == "val" and finished.config.method == "da_dfgas":
                continue  # half of the validation nodes judge
            assert right[made.data.split == code].mean() == pytest.approx(row[f"{subset}_accuracy"], abs=1e-9)


def test_the_path_is_the_one_that_validation_chose(
    finished: Finished, predicted: dict[str, Predicted]
) -> None:
    paths = method_of(finished.config).scoring_paths(ServerContext(finished.config))
    rows = [row for row in finished.clients if row["round"] == finished.summary.best_round]
    for made in predicted.values():
        pooled = {
            path: sum(
                (row["val_nodes"] or 0) * row["scores"].get(f"val_accuracy_{path}", 0.0) for row in rows
            )
            for path in (paths if len(paths) > 1 else ())
        }
        best = max(paths, key=lambda path: pooled.get(path, 0.0))
        assert made.release.card.scoring == best


def test_evidence_is_that_of_the_run(finished: Finished, predicted: dict[str, Predicted]) -> None:
    number = RunDirectory.open(finished.path / "run").read_model_card().get("round")
    for site, made in predicted.items():
        if not finished.config.spec.traits.keeps_evidence:
            assert made.prediction.packs is None
            continue
        kept = read_packs(finished.path / "work" / site / "evidence" / f"round-{number:04d}.jsonl")
        assert made.prediction.packs == kept
        if made.release.card.scoring == "evidence":
            confidence = made.prediction.logits.softmax(1).max(1).values.numpy()
            assert np.allclose(confidence, [pack.confidence for pack in kept], rtol=0, atol=1e-6)
            assert [made.data.classes[place] for place in made.classes] == [pack.prediction for pack in kept]
