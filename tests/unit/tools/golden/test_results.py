"""Two run directories are the same only where their results are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tools.golden.results import differences, first_difference

ROW = {"round": 1, "val_accuracy": 0.5, "seconds": 1.5, "seconds_by_phase": {"train": 1.0}, "bytes_up": 100}
SENT = [
    {"schema": 2},
    {"group": 0, "names": ["a", "b"]},
    {"group": 1, "names": ["server"]},
    {"round": 1, "from": 0, "to": 1, "kind": "scores", "bytes": 14},
    {"round": 1, "from": 0, "to": 1, "kind": "seconds", "bytes": 36},
]
SUMMARY = {"best_round": 1, "peak_rss_mb": 480.5, "versions": {"numpy": "2.4"}, "privacy": None}


def write(run: Path, **changes: Any) -> Path:
    """A run directory; a change replaces a file's content by its name, None leaves the file out."""
    run.mkdir()
    files: dict[str, Any] = {
        "model": {"weight": np.arange(6, dtype=np.float32).reshape(2, 3)},
        "condensed": None,
        "metrics": [ROW],
        "clients": [{"client": "a", "round": 1, "weight": 1.0}],
        "disclosures": SENT,
        "summary": SUMMARY,
    }
    files |= changes
    for name in ("model", "condensed"):
        if files[name] is not None:
            save_file(files[name], run / f"{name}.safetensors")
    for name in ("metrics", "clients", "disclosures"):
        text = "".join(json.dumps(row) + "\n" for row in files[name])
        (run / f"{name}.jsonl").write_text(text, encoding="utf-8")
    (run / "summary.json").write_text(json.dumps(files["summary"]), encoding="utf-8")
    return run


@pytest.fixture
def against(tmp_path: Path) -> Callable[..., str | None]:
    """The first difference between the plain run and one with changes."""
    one = write(tmp_path / "one")
    return lambda **changes: first_difference(one, write(tmp_path / "other", **changes))


def test_times_memory_versions_and_traffic_are_no_results(against: Callable[..., str | None]) -> None:
    told = [*SENT[:-1], {**SENT[-1], "bytes": 37, "sizes": [18, 19]}]
    found = against(
        metrics=[{**ROW, "seconds": 9.0, "seconds_by_phase": {"train": 2.0, "score": 1.0}, "bytes_up": 101}],
        disclosures=told,
        summary={**SUMMARY, "peak_rss_mb": 1.0, "versions": {"numpy": "3.0", "fedtag": "0.2"}},
    )
    assert found is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"model": {"weight": np.array([[0, 1, 2], [3, 4, 5.5]], np.float32)}},
            "model.safetensors: weight differs in 1 of 6 numbers, by 0.5 at most",
        ),
        (
            {"model": {"weight": np.arange(6, dtype=np.float32)}},
            "model.safetensors: weight is float32[2, 3] and float32[6]",
        ),
        (
            {"model": {"weights": np.zeros(1, np.float32)}},
            "model.safetensors: weight is there only in the first",
        ),
        ({"model": None}, "model.safetensors is there only in the first"),
        ({"condensed": {"x": np.zeros(1)}}, "condensed.safetensors is there only in the second"),
        (
            {"metrics": [{**ROW, "val_accuracy": 0.25}]},
            "metrics.jsonl row 1: val_accuracy is 0.5 and 0.25",
        ),
        ({"metrics": [{**ROW, "empty": False}]}, "metrics.jsonl row 1: empty is nothing and false"),
        ({"metrics": [ROW, ROW]}, "metrics.jsonl row 2: it is nothing and {"),
        ({"clients": [{"client": "a", "round": 1, "weight": 1}]}, "clients.jsonl row 1: weight is 1.0 and 1"),
        ({"disclosures": SENT[:-1]}, "disclosures.jsonl row 5: it is "),
        (
            {"disclosures": [*SENT[:3], {**SENT[3], "bytes": 15}, SENT[4]]},
            "disclosures.jsonl row 4: bytes is 14 and 15",
        ),
        ({"summary": {**SUMMARY, "best_round": 2}}, "summary.json: best_round is 1 and 2"),
    ],
)
def test_the_first_difference_is_named(
    against: Callable[..., str | None], changes: dict[str, Any], sentence: str
) -> None:
    assert str(against(**changes)).startswith(sentence)


def test_numbers_that_are_equal_and_not_the_same_bits_differ(against: Callable[..., str | None]) -> None:
    zero = np.arange(6, dtype=np.float32).reshape(2, 3)
    zero[0, 0] = -0.0
    assert (
        against(model={"weight": zero}) == "model.safetensors: weight differs in 0 of 6 numbers, by 0 at most"
    )


def test_architectures_are_compared_where_there_are_any(tmp_path: Path) -> None:
    runs = [write(tmp_path / name) for name in ("one", "other")]
    for run, choice in zip(runs, ("gcn", "mlp"), strict=True):
        (run / "architectures").mkdir()
        (run / "architectures" / "a.json").write_text(json.dumps({"cells": [choice]}), encoding="utf-8")
    assert list(differences(*runs)) == ['architectures/a.json: cells[0] is "gcn" and "mlp"']
