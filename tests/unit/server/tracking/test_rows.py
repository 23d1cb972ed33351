"""The schema of the files, and what may not enter them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import RunError
from fedtag.server.tracking.row_objects import object_to_row, row_to_object
from fedtag.server.tracking.rows import (
    ClientRow,
    RoundRow,
    Summary,
    best_round,
)

ROUND_KEYS = [
    "round",
    "train_loss",
    "val_accuracy",
    "test_accuracy",
    "test_macro_f1",
    "seconds",
    "seconds_by_phase",
    "bytes_up",
    "bytes_down",
    "clients_ok",
    "clients_failed",
    "test_ece",
    "val_macro_f1",
    "local_val_accuracy",
    "local_test_accuracy",
    "effective_ratio",
    "empty",
    "selection",
    "val_spread",
    "test_spread",
    "val_balanced_accuracy",
    "test_balanced_accuracy",
    "val_auroc",
    "test_auroc",
    "val_auprc",
    "test_auprc",
]
CLIENT_KEYS = [
    "round",
    "client",
    "nodes",
    "train_nodes",
    "val_accuracy",
    "test_accuracy",
    "test_macro_f1",
    "seconds_by_phase",
    "val_nodes",
    "test_nodes",
    "local_test_accuracy",
    "weight",
    "failed",
    "scores",
    "steps",
    "normaliser",
    "statistics",
    "condensation",
    "parameters",
    "test_balanced_accuracy",
    "test_auroc",
    "test_auprc",
]
SUMMARY_KEYS = [
    "method",
    "data",
    "clients",
    "rounds",
    "ratio",
    "seed",
    "best_round",
    "val_accuracy",
    "test_accuracy",
    "test_macro_f1",
    "last_test_accuracy",
    "bytes_up",
    "bytes_down",
    "encoder_tokens",
    "llm_tokens",
    "llm_tokens_full_text",
    "seconds",
    "seconds_per_round",
    "peak_rss_mb",
    "versions",
    "llm_tokens_two_hop",
    "llm_summaries",
    "test_ece",
    "test_reliability",
    "val_reliability",
    "privacy",
    "weights_lag",
    "parameters",
    "val_spread",
    "test_spread",
    "metric",
    "val_macro_f1",
    "val_balanced_accuracy",
    "test_balanced_accuracy",
    "val_auroc",
    "test_auroc",
    "val_auprc",
    "test_auprc",
    "test_classes",
    "split",
    "run",
    "flower_run",
    "link_candidates",
    "engine",
]


def round_row(number: int = 1, **changes: object) -> RoundRow:
    values: dict[str, object] = {
        "round": number,
        "train_loss": 0.5,
        "val_accuracy": 0.8,
        "test_accuracy": 0.7,
        "test_macro_f1": 0.6,
        "seconds": 1.5,
        "seconds_by_phase": {"train": 1.0},
        "bytes_up": 10,
        "bytes_down": 20,
        "clients_ok": 2,
        "clients_failed": 0,
    }
    return RoundRow(**{**values, **changes})  # type: ignore[arg-type]


def client_row(**changes: object) -> ClientRow:
    values: dict[str, object] = {
        "round": 1,
        "client": "a",
        "nodes": 5,
        "train_nodes": 3,
        "val_accuracy": 0.5,
        "test_accuracy": None,
        "test_macro_f1": None,
        "seconds_by_phase": {},
    }
    return ClientRow(**{**values, **changes})  # type: ignore[arg-type]


def summary(**changes: object) -> Summary:
    values: dict[str, object] = dict.fromkeys(SUMMARY_KEYS)
    values |= {"method": "fedavg", "data": "cora", "clients": 2, "rounds": 3, "seed": 0, "bytes_up": 1}
    values |= {"bytes_down": 2, "seconds": 3.0, "versions": {"torch": "2"}, "metric": "accuracy"}
    values |= {"engine": "separate"}
    return Summary(**{**values, **changes})  # type: ignore[arg-type]


def test_keys_are_those_of_the_contract() -> None:
    assert list(row_to_object(round_row())) == ROUND_KEYS
    assert list(row_to_object(client_row())) == CLIENT_KEYS
    assert list(row_to_object(summary())) == SUMMARY_KEYS


@given(st.one_of(st.none(), st.floats(0, 1)), st.floats(allow_nan=True), st.text())
def test_rows_survive_json(accuracy: float | None, loss: float, name: str) -> None:
    row = round_row(val_accuracy=accuracy, train_loss=loss, seconds_by_phase={name: 1.25})
    back = object_to_row(RoundRow, json.loads(json.dumps(row_to_object(row), allow_nan=False)))
    finite = loss if math.isfinite(loss) else None
    assert back == round_row(val_accuracy=accuracy, train_loss=finite, seconds_by_phase={name: 1.25})


def test_nan_becomes_none_where_a_field_may_be_empty() -> None:
    record = row_to_object(client_row(test_accuracy=math.nan, scores={"graph": math.nan, "evidence": 0.25}))
    assert record["test_accuracy"] is None
    assert record["scores"] == {"graph": None, "evidence": 0.25}


@pytest.mark.parametrize("changes", [{"seconds": math.nan}, {"seconds_by_phase": {"train": math.inf}}])
def test_nan_is_refused_where_a_value_is_due(changes: dict[str, object]) -> None:
    with pytest.raises(RunError, match=r"seconds.* of a RoundRow is not finite"):
        row_to_object(round_row(**changes))


@pytest.mark.parametrize("value", [85.0, -0.1, math.inf])
def test_percentages_are_refused(value: float) -> None:
    with pytest.raises(RunError, match=r"test_accuracy of round 4 is .* must be a fraction in \[0, 1\]"):
        round_row(4, test_accuracy=value)


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(
        RunError, match="metric of the summary is 'luck'; it must be one of accuracy, macro-f1"
    ):
        summary(metric="luck")


def test_a_summary_keeps_bins_and_what_the_accountant_says() -> None:
    bins = [
        {"nodes": 0, "confidence": None, "accuracy": None},
        {"nodes": 2, "confidence": 0.9, "accuracy": 0.5},
    ]
    privacy = {"epsilon": math.inf, "delta": 1e-5, "mode": "central", "unit": "institution", "rounds": 3}
    row = summary(test_reliability=bins, privacy=privacy, weights_lag=1)
    record = json.loads(json.dumps(row_to_object(row), allow_nan=False))
    back = object_to_row(Summary, record)
    # Without noise no epsilon bounds anything.
    assert back == summary(test_reliability=bins, privacy={**privacy, "epsilon": None}, weights_lag=1)
    for key in ("test_reliability", "val_reliability", "privacy", "weights_lag"):
        del record[key]
    assert object_to_row(Summary, record) == summary()


def test_statistics_that_are_not_finite_stop_no_run() -> None:
    assert row_to_object(client_row(statistics={"divergence": math.nan}))["statistics"] == {
        "divergence": None
    }


def test_numpy_numbers_become_plain() -> None:
    record = row_to_object(round_row(bytes_up=np.int64(7), seconds=np.float32(0.5)))
    assert json.dumps([record["bytes_up"], record["seconds"]]) == "[7, 0.5]"


def test_types_that_json_lacks_are_refused() -> None:
    with pytest.raises(RunError, match="seconds is a complex, which JSON lacks"):
        row_to_object(round_row(seconds=1j))


def test_unknown_keys_are_ignored_and_missing_ones_named() -> None:
    record = row_to_object(round_row())
    assert object_to_row(RoundRow, {**record, "later_version": 1}) == round_row()
    del record["seconds"]
    with pytest.raises(RunError, match=r"no RoundRow: .*'seconds'"):
        object_to_row(RoundRow, record)


def test_best_round_looks_at_validation_and_takes_the_earliest() -> None:
    scores = [(0.5, 0.9), (0.8, 0.6), (0.8, 0.7), (None, 1.0)]
    rows = [round_row(n, selection=v, test_accuracy=t) for n, (v, t) in enumerate(scores, start=1)]
    best = best_round(rows)
    assert best is not None
    assert best.round == 2
    last = best_round([round_row(1, val_accuracy=None), round_row(2, val_accuracy=None)])
    assert last is not None
    assert last.round == 2
    assert best_round([]) is None


def test_tokens_of_one_node() -> None:
    told = summary(llm_tokens=300, llm_tokens_full_text=1000, llm_tokens_two_hop=5000, llm_summaries=10)
    node = told.tokens_per_node
    assert node is not None
    assert (node.chunks, node.full_text, node.two_hop) == (30.0, 100.0, 500.0)
    assert node.saving == pytest.approx(0.7)
    assert summary(llm_tokens=0, llm_tokens_full_text=0, llm_summaries=0).tokens_per_node is None
    assert summary(llm_tokens=None, llm_tokens_full_text=None).tokens_per_node is None
