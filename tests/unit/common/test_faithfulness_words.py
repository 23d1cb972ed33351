from __future__ import annotations

from typing import Any

import pytest

from common.faithfulness_words import (
    GoalRow,
    churn_sentences,
    comparison_sentences,
    condition_rows,
    goal_rows,
    guarantee_sentences,
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
    # The random drop is zero, so that the quotient has no value and the difference decides.
    assert comprehensiveness.sentence.endswith(
        "undefined (95% interval undefined to no bound), goal 2.00 times: met"
    )
    report["goals"][0] |= {"secured": False}
    report["goals"][1] |= {"secured": False, "met": False}
    assert [goal.verdict for goal in goal_rows(report)][:2] == ["met on average", "not met"]
    assert "2.50 times (95% interval" in GoalRow("x", 2.0, 2.5, 1.0, 3.0, False, "met").sentence


def test_comparisons_are_sentences(measured_summary: dict[str, Any]) -> None:
    told = comparison_sentences(measured_summary["reports"]["as_trained"])
    assert told == [
        (
            "Drop without the evidence minus that without random chunks of the candidates: +0.500 "
            "(95% interval +0.500 to +0.500)"
        ),
        (
            "Drop without the evidence minus that without random chunks of the selected nodes: +0.000 "
            "(95% interval +0.000 to +0.000)"
        ),
        (
            "Drop without the evidence minus that without the strongest chunks by dense attention: +0.000 "
            "(95% interval +0.000 to +0.000)"
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
    assert guarantee_sentences(measured_summary["guarantees"])[-1] == (
        "Chunks: at most 3 kept of a budget of 4, 0 of 2 nodes over it; the truncation moves the vector by 0.0100 "
        "on average (0.2000 at most) under a mean bound 2Mδ of 0.0300, 0 nodes over their bound"
    )
    assert churn_sentences(measured_summary["churn"]) == [
        "Rounds 3 and 5: 25.0% of the spans differ, nodes with the same spans: 1 of 2 with evidence in both",
        "Rounds 3 and 5: no node is in both cores",
        "Top-B margin up to 0.500: 25.0% of the spans of 2 nodes differ between these rounds",
    ]
    assert churn_sentences({"scored": [], "core": [], "by_margin": []}) == [
        "Evidence of one round only is kept: no churn can be stated"
    ]
