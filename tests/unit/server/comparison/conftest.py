"""Comparisons whose numbers are made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from fedtag.server.comparison.results import Comparison, Result, Row
from fedtag.server.tracking.rows import RoundRow, Summary

Scores = Mapping[str, Sequence[float | None]]


def summary(test: float, seed: int) -> Summary:
    return Summary(
        method="fedavg",
        data="cora",
        clients=3,
        rounds=4,
        ratio=None,
        seed=seed,
        best_round=3,
        val_accuracy=min(1.0, test + 0.01),
        test_accuracy=test,
        test_macro_f1=test - 0.02,
        test_balanced_accuracy=test - 0.03,
        test_auroc=min(1.0, test + 0.0625),
        val_auprc=test - 0.04,
        test_auprc=test - 0.05,
        last_test_accuracy=test,
        bytes_up=4000,
        bytes_down=8_000_000,
        encoder_tokens=1234 if seed == 0 else 0,
        llm_tokens=None,
        llm_tokens_full_text=None,
        seconds=12.0,
        seconds_per_round=2.5,
        peak_rss_mb=100.0,
        versions={},
        test_ece=0.05,
        test_reliability=[
            {"nodes": 0, "confidence": None, "accuracy": None},
            *(
                {"nodes": 10 + 20 * seed, "confidence": (k + 0.5) / 15, "accuracy": test}
                for k in range(1, 15)
            ),
        ],
    )


def rounds(test: float, length: int) -> tuple[RoundRow, ...]:
    return tuple(
        RoundRow(number, 1.0, test, test - 0.01 * (length - number), test, 1.0, {}, 1, 1, 3, 0)
        for number in range(1, length + 1)
    )


def comparison_of(
    scores: Scores,
    baseline: str = "FedAvg",
    rows: Sequence[Row] = (),
    axis: str = "",
    data: Sequence[str] = ("cora",),
    length: int = 4,
) -> Comparison:
    """A comparison from test accuracies by row, one a seed; None stands for a run that is missing."""
    count = len(next(iter(scores.values())))
    results = {}
    for place, name in enumerate(data):
        for row, tests in scores.items():
            for seed, test in enumerate(tests):
                run = f"runs/{row}/{name}/seed-{seed}"
                found = Result(row, name, seed, run)
                if test is not None:
                    figures, scored = summary(test - 0.1 * place, seed), rounds(test, length)
                    found = Result(row, name, seed, run, figures, scored, 30.0 + seed)
                results[row, name, seed] = found
    return Comparison(
        title="Methods | all",
        source="Table 1",
        settings={"rounds": 4},
        rows=tuple(rows) or tuple(Row(name, {"method": name}) for name in scores),
        data=tuple(data),
        seeds=tuple(range(count)),
        baseline=baseline,
        axis=axis,
        results=results,
    )


@pytest.fixture
def compared() -> Callable[..., Comparison]:
    """Builds a comparison, see `comparison_of`."""
    return comparison_of
