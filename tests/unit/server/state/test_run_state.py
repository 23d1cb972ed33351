from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedtag.common.numerics.scores import tally
from fedtag.common.wire.records import Letter
from fedtag.server.protocol.state import Agreement, ServerState
from fedtag.server.state.checkpoint import CheckpointFolder
from fedtag.server.state.run_state import RunState
from fedtag.server.state.scores import PooledScores
from fedtag.server.tracking.rows import RoundRow


def scores(val_right: int | None, test_right: int = 0) -> PooledScores:
    """Validation with so many of four right, or without any node; test the same."""

    def counts(right: int | None) -> object:
        nodes = 0 if right is None else 4
        logits = torch.eye(2)[(torch.arange(nodes) >= (right or 0)).long()]
        return tally(logits, torch.zeros(nodes, dtype=torch.int64), torch.ones(nodes, dtype=torch.bool))

    selection = None if val_right is None else val_right / 4
    return PooledScores("graph", counts(val_right), counts(test_right), selection)  # type: ignore[arg-type]


def model(value: float) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor([value])}


def test_the_best_model_is_the_first_with_the_best_validation() -> None:
    run_state = RunState()
    for number, (val, test) in enumerate([(1, 4), (3, 0), (3, 4), (2, 4)], start=1):
        run_state.consider(number, scores(val, test), model(number))
    assert (run_state.best_round, run_state.best_score) == (2, 0.75)
    assert run_state.best["w"].item() == 2


def test_without_validation_nodes_the_newest_model_stands() -> None:
    run_state = RunState()
    for number in (1, 2):
        run_state.consider(number, scores(None, number), model(number))
        assert run_state.best_round == number


def test_a_model_that_is_not_releasable_stands_until_one_is() -> None:
    run_state = RunState()
    for number, (val, releasable) in enumerate([(4, False), (3, False), (1, True), (2, True), (1, True)], 1):
        run_state.consider(number, scores(val), model(number), releasable=releasable)
        assert run_state.best_round == (number if number < 5 else 4)
    assert run_state.best_score == 0.5


def test_calibration_bins_are_those_of_the_best_round() -> None:
    run_state = RunState()
    for number, (val, test) in enumerate([(1, 4), (3, 1), (2, 4)], start=1):
        run_state.consider(number, scores(val, test), model(number))
    for subset, right in (("val", 3), ("test", 1)):
        filled = [part for part in run_state.best_reliability[subset] if part["nodes"]]
        assert len(run_state.best_reliability[subset]) == 15
        assert [(part["nodes"], part["accuracy"]) for part in filled] == [(4, right / 4)]
    run_state = RunState()
    run_state.consider(1, scores(None, 2), model(1))
    assert run_state.best_reliability["val"] == []


def test_only_counts_are_added() -> None:
    run_state = RunState()
    for told in (
        {"encoder": 3},
        {"encoder": 4, "llm": True},
        {"encoder": -1},
        {"encoder": 1.5},
        {"encoder": 10**30},
    ):
        run_state.count_tokens(told)
    assert run_state.tokens == {"encoder": 7}


def row() -> RoundRow:
    return RoundRow(3, 0.5, None, None, None, 1.0, {"train": 1.0}, 5, 6, 2, 1, effective_ratio=0.1)


def test_a_checkpoint_brings_everything_back(tmp_path: Path) -> None:
    run_state = RunState(
        step=7,
        round=3,
        agreement=Agreement(("a", "ß"), 4, "features.npy"),
        state=ServerState({"model/w": torch.ones(2), "average/w": torch.zeros(2)}, {"x": [1]}),
        pending=row(),
        weights={"site": 1.0},
        failures={"other": "no reply"},
        best_round=2,
        best_score=0.25,
        best=model(2.5),
        best_reliability={"val": [], "test": [{"nodes": 3, "confidence": 0.1, "accuracy": 1 / 3}]},
        best_classes=[
            {"nodes": 3, "precision": None, "recall": 0.0, "f1": 0.0, "auroc": 0.5, "auprc": 1 / 3}
        ],
        tokens={"encoder": 3},
        letters={"a": (Letter("b", "a", "note", b"\x00sealed"), Letter("c", "a", "note", b"more"))},
    )
    folder = CheckpointFolder(tmp_path, {"digest": "x"})
    assert RunState.load(folder) is None
    run_state.save(folder)
    loaded = RunState.load(CheckpointFolder(tmp_path, {"digest": "x"}))
    assert loaded is not None
    back, note = loaded
    assert note is None
    for name, value in vars(run_state).items():
        if name not in ("state", "best"):
            assert getattr(back, name) == value, name
    assert back.state is not None
    assert back.state.values == {"x": [1]}
    assert {name: value.tolist() for name, value in back.state.tensors.items()} == {
        "model/w": [1, 1],
        "average/w": [0, 0],
    }
    assert back.best["w"].item() == 2.5


def test_runs_have_identifiers_of_their_own() -> None:
    assert RunState().run != RunState().run
    assert RunState().run.isalnum()


def test_a_standing_without_state_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        RunState().save(CheckpointFolder(tmp_path, {}))
