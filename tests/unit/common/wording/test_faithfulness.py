from __future__ import annotations

from typing import Any

import pytest

from fedtag.common.wording.faithfulness import (
    GoalRow,
    churn_sentences,
    comparison_sentences,
    condition_rows,
    goal_rows,
    guarantee_sentences,
    verdict_sentences,
)


def test_every_condition_has_a_row_in_words(measured_summary: dict[str, Any]) -> None:
    report = measured_summary["reports"]["as_trained"]
    rows = condition_rows(report)
    assert len(rows) == 1 + 3 * 4
    assert (rows[0].words, rows[0].accuracy, rows[0].ratio, rows[0].drop) == ("the full text", 1.0, 1.0, None)
    removed = next(row for row in rows if row.words == "without the evidence")
    assert (removed.accuracy, removed.ratio) == (0.0, 0.0)
    assert removed.drop == pytest.approx(0.5)
    assert len({row.words for row in rows}) == len(rows)
    report["accuracy"]["full"] = 0.0
    assert condition_rows(report)[0].ratio is None


def test_goals_are_sentences_with_a_verdict(measured_summary: dict[str, Any]) -> None:
    report = measured_summary["reports"]["as_trained"]
    sufficiency, near, comprehensiveness = goal_rows(report)
    assert sufficiency.sentence.endswith("100.0% (95% interval 100.0% to 100.0%), goal 97.0%: met")
    assert near.verdict == "met"
    # The random drop is zero, so that the quotient has no value.
    assert comprehensiveness.sentence.endswith(
        "undefined (95% interval undefined to no bound), a drop of +0.500 over one of 0.000, goal 2.00 times: "
        "cannot be told"
    )
    report["goals"][0] |= {"secured": False}
    report["goals"][1] |= {"secured": False, "met": False}
    assert [goal.verdict for goal in goal_rows(report)][:2] == ["met on average", "not met"]
    assert "2.50 times (95% interval" in GoalRow("x", 2.0, 2.5, 1.0, 3.0, False, "met").sentence


@pytest.mark.parametrize(
    ("drops", "verdict"),
    [((0.009, 0.001), "cannot be told, both drops are tiny"), ((0.09, 0.01), "met"), ((0.002, -0.05), "met")],
)
def test_a_ratio_of_tiny_drops_is_no_triumph(
    measured_summary: dict[str, Any], drops: tuple[float, float], verdict: str
) -> None:
    report = measured_summary["reports"]["as_trained"]
    report["goals"][2] |= {"estimate": 9.0, "low": 5.0, "high": 12.0}
    report["drop"]["removed"] |= dict(zip(("evidence", "random"), drops, strict=True))
    goal = goal_rows(report)[2]
    assert goal.verdict == verdict
    assert f"a drop of {drops[0]:+.3f} over one of {drops[1]:+.3f}".replace("-", "−") in goal.sentence


def test_few_nodes_give_no_verdict(measured_summary: dict[str, Any]) -> None:
    report = measured_summary["reports"]["as_trained"]
    assert verdict_sentences(report) == [
        "Few nodes: wide intervals, read no verdict into them (2 nodes were measured, 50 are the least)"
    ]
    report["targets"] = 49
    assert verdict_sentences(report)[0].startswith("Few nodes")
    report["targets"] = 50
    assert verdict_sentences(report) == [
        (
            "The evidence alone is enough: it keeps 100.0% of the accuracy (goal 97%), and it matters more than "
            "random text: the mean drop in probability is 50.0 points without it and 0.0 without as many random chunks"
        ),
        (
            "Dense attention explains the predictions about as well as the evidence (the drop without the evidence "
            "minus that without dense attention's chunks: 0.0 points, 95% interval 0.0 to 0.0)"
        ),
    ]


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ((0.95, 0.9, 0.96), "The evidence alone is not enough: it keeps 95.0% of the accuracy"),
        ((0.98, 0.9, 1.0), "Whether the evidence alone is enough cannot be told: it keeps 98.0%"),
        ((None, None, None), "Whether the evidence alone is enough cannot be told, and"),
        ((0.99, 0.97, None), "The evidence alone is enough"),
    ],
)
def test_the_verdict_on_sufficiency_follows_the_interval(
    measured_summary: dict[str, Any], interval: tuple[float | None, ...], words: str
) -> None:
    report = measured_summary["reports"]["as_trained"] | {"targets": 50}
    report["goals"][0] |= dict(zip(("estimate", "low", "high"), interval, strict=True))
    assert verdict_sentences(report)[0].startswith(words)


@pytest.mark.parametrize(
    ("low", "high", "drop", "matters", "dense"),
    [
        (0.1, 0.3, 0.5, "it matters more than random text: ", "less well than"),
        (0.001, 0.003, 0.005, "it matters more than random text, but hardly: ", "less well than"),
        (-0.1, 0.3, 0.5, "it is not shown to matter more than random text: ", "about as well as"),
        (-0.3, -0.1, 0.5, "it is not shown to matter more than random text: ", "better than"),
    ],
)
def test_the_verdict_on_drops_follows_the_intervals(
    measured_summary: dict[str, Any], low: float, high: float, drop: float, matters: str, dense: str
) -> None:
    report = measured_summary["reports"]["as_trained"] | {"targets": 50}
    for control in ("random", "dense_attention"):
        report["comprehensiveness_minus"][control] = {"estimate": (low + high) / 2, "low": low, "high": high}
    report["drop"]["removed"]["evidence"] = drop
    first, second = verdict_sentences(report)
    assert matters in first
    assert f"Dense attention explains the predictions {dense} the evidence" in second


def test_comparisons_are_sentences(measured_summary: dict[str, Any]) -> None:
    told = comparison_sentences(measured_summary["reports"]["as_trained"])
    assert told == [
        (
            "Drop without the evidence minus that without random chunks of the candidates: +0.500 "
            "(95% interval +0.500 to +0.500)"
        ),
        (
            "Drop without the evidence minus that without random chunks of the selected nodes: 0.000 "
            "(95% interval 0.000 to 0.000)"
        ),
        (
            "Drop without the evidence minus that without the strongest chunks by dense attention: 0.000 "
            "(95% interval 0.000 to 0.000)"
        ),
        (
            "Area under the deletion curve, the smaller the better: the evidence 0.575, random chunks of the "
            "candidates 0.800, the strongest chunks by dense attention 0.575"
        ),
        (
            "Area under the insertion curve, the larger the better: the evidence 0.525, random chunks of the "
            "candidates 0.200, the strongest chunks by dense attention 0.525"
        ),
    ]


def test_checks_are_sentences(measured_summary: dict[str, Any]) -> None:
    told = guarantee_sentences(measured_summary["guarantees"])
    assert told[-1] == (
        "Chunks: at most 3 kept of a budget of 4, 0 of 2 nodes over it; leaving out the others moves the vector by "
        "0.0100 on average (0.2000 at most), where 0.0300 is allowed on average, 0 nodes over their bound"
    )
    # The bound is explained where it first stands, and only there.
    assert ["2Mδ" in sentence for sentence in told] == [True, False, False]
    assert churn_sentences(measured_summary["churn"]) == [
        "Rounds 3 and 5: 25.0% of the spans differ, nodes with the same spans: 1 of 2 with evidence in both",
        "Rounds 3 and 5: no node is in both cores",
        (
            "Margin, by which the last chunk that the budget kept outscored the first left out (top-B margin), up to "
            "0.500: 25.0% of the spans of 2 nodes differ between these rounds"
        ),
    ]
    assert churn_sentences({"scored": [], "core": [], "by_margin": []}) == [
        "Evidence of one round only is kept: no churn can be stated"
    ]
