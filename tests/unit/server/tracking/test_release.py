"""Reading a released model from model.json and model.safetensors alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.models.parameters import fingerprint
from fedtag.server.tracking.release import card_digest, read_release, released_settings
from fedtag.server.tracking.run_directory import RunDirectory

PARAMETERS = {"w": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(2)}
CONFIG = RunConfig.from_flat(
    {
        "method": "dance",
        "seed": 5,
        "model.hidden": 7,
        "text.chunk-tokens": 32,
        "dance.two-hop-cap": 9,
        "data.source": "/home/someone/graph",
    }
)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A folder that holds nothing but a released model."""
    run = RunDirectory(tmp_path / "model")
    card = {
        "round": 3,
        "fingerprint": fingerprint(PARAMETERS),
        "classes": ["a", "b"],
        "dimension": 3,
        "features": "features.npy",
        "scoring": "evidence",
        **released_settings(CONFIG),
    }
    run.write_model(PARAMETERS, {**card, "digest": card_digest(card)})
    return run.path


def test_two_files_are_enough(released: Path) -> None:
    assert sorted(path.name for path in released.iterdir()) == ["model.json", "model.safetensors"]
    release = read_release(RunDirectory.open_release(released))
    assert release.card.classes == ("a", "b")
    assert (release.card.round, release.card.scoring, release.card.dimension) == (3, "evidence", 3)
    assert all(torch.equal(release.parameters[name], value) for name, value in PARAMETERS.items())
    for name in ("method", "seed", "model", "text"):
        assert getattr(release.config, name) == getattr(CONFIG, name), name
    assert release.config.own(DanceConfig) == CONFIG.own(DanceConfig)
    assert release.config.data == RunConfig().data
    assert "someone" not in (released / "model.json").read_text()


def test_only_the_methods_own_table_is_released() -> None:
    assert set(released_settings(RunConfig(method="fedavg"))) == {"method", "seed", "model", "text"}


def test_how_a_graph_is_taken_in_parts_is_released_where_it_was() -> None:
    config = RunConfig.from_flat({"method": "fedavg", "train.batch-size": 64, "train.fan-out": 3})
    assert released_settings(config)["train"] == {"batch-size": 64, "fan-out": 3}


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    card = json.loads((path / "model.json").read_text())
    change(card)
    (path / "model.json").write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda card: card.pop("scoring"), "lacks scoring, or has no usable value"),
        (lambda card: card.update(classes="ab", dimension=0), "lacks classes, dimension, or has no usable"),
        (lambda card: card.pop("method"), "lacks method; restore both files"),
        (lambda card: [card.pop("text"), card.pop("seed")], "lacks seed, text; restore both files"),
        (lambda card: card["model"].update(hidden=-1), r"cannot be used \(model.hidden = -1"),
        (lambda card: card.update(text="bundled"), "unknown setting 'text'"),
        (lambda card: card.update(method="../x"), "no method is called so"),
        (lambda card: card.update(fingerprint="0" * 64), "does not hold the parameters whose fingerprint"),
        (lambda card: card.update(round=0), "lacks round, or has no usable value"),
        (lambda card: card.pop("digest"), "has no digest of its entries"),
        (lambda card: card.update(classes=["b", "a"]), r"model\.json was changed: .*restore both files"),
        (lambda card: card.update(scoring="graph"), r"model\.json was changed"),
        (lambda card: card.update(round=2), r"model\.json was changed"),
        (lambda card: card.update(features="encoder bundled"), r"model\.json was changed"),
        (lambda card: card.update(method="fedavg"), "belongs to dance, which this run has not"),
        (lambda card: card.update(seed=6), r"model\.json was changed"),
        (lambda card: card["model"].pop("hidden"), r"model\.json was changed"),
        (lambda card: card["dance"].update({"two-hop-cap": 8}), r"model\.json was changed"),
        (lambda card: card.update(digest="0" * 64), r"model\.json was changed"),
        (lambda card: card.update(sha256="0" * 64), "is not the file whose SHA-256"),
        (lambda card: card.clear(), "is not the file whose SHA-256"),
    ],
)
def test_each_fault_of_the_card_is_named(
    released: Path, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    edited(released, change)
    with pytest.raises(RunError, match=sentence):
        read_release(RunDirectory.open_release(released))


def test_a_damaged_file_is_named(released: Path) -> None:
    path = released / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RunError, match="is not the file whose SHA-256"):
        read_release(RunDirectory.open_release(released))
    edited(released, lambda card: card.update(sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
    with pytest.raises(RunError, match=r"model\.safetensors is damaged"):
        read_release(RunDirectory.open_release(released))
    other = safetensors.torch.save({"w": torch.ones(1)})
    path.write_bytes(other)
    edited(released, lambda card: card.update(sha256=hashlib.sha256(other).hexdigest()))
    with pytest.raises(RunError, match="does not hold the parameters whose fingerprint"):
        read_release(RunDirectory.open_release(released))


def test_parameters_that_the_card_describes_may_not_be_missing(released: Path) -> None:
    (released / "summary.json").write_text("{}")
    (released / "model.safetensors").unlink()
    with pytest.raises(RunError, match=r"which model\.json describes, is missing"):
        read_release(RunDirectory.open_release(released))


def test_folders_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a folder"):
        RunDirectory.open_release(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    with pytest.raises(RunError, match="is no run directory"):
        RunDirectory.open_release(tmp_path / "other")
    run = RunDirectory(tmp_path / "begun")
    run.write_config({"method": "fedavg"})
    with pytest.raises(RunError, match="has not released a model yet: resume it"):
        read_release(RunDirectory.open_release(run.path))
