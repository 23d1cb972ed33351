"""What a faithfulness report says, row by row, for every place that shows one.

A report is the plain object that a site's or a run's faithfulness.json holds for one predictor: means over
nodes, intervals and goals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PREDICTORS = {
    "as_trained": "The model as it is",
    "bypass_off": "The same with the bypass off: propagated and whole-document features at zero throughout",
}
"""Keys of the reports in a faithfulness.json, in order, with their headings."""

ORDERS = {
    "evidence": "the evidence",
    "random": "random chunks of the candidates",
    "selected_nodes": "random chunks of the selected nodes",
    "dense_attention": "the strongest chunks by dense attention",
}
ACTIONS = {
    "kept": "only {} left in the whole graph",
    "kept_near": "only {} left within two hops",
    "removed": "without {}",
}
_GOALS = {
    "sufficiency": "Sufficiency, all other text of the graph empty: accuracy from the evidence over accuracy "
    "from the full text",
    "sufficiency_near": "Sufficiency, texts beyond two hops kept: accuracy from the evidence over accuracy from "
    "the full text",
    "comprehensiveness_over_random": "Comprehensiveness: the drop in probability without the evidence over "
    "that without as many random chunks",
}


@dataclass(frozen=True)
class ConditionRow:
    """One condition: its words, accuracy, accuracy over that of the full text, mean drop in probability."""

    words: str
    accuracy: float
    ratio: float | None
    drop: float | None


@dataclass(frozen=True)
class GoalRow:
    """One goal: its words, what was found, and whether it is met.

    Args:
        in_percent: the values are fractions of 1, else multiples.
        verdict: `met`, `met on average` (the interval reaches below the goal) or `not met`.
    """

    words: str
    goal: float
    estimate: float | None
    low: float | None
    high: float | None
    in_percent: bool
    verdict: str

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        low, high = self._shown(self.low, "undefined"), self._shown(self.high, "no bound")
        found = f"{self._shown(self.estimate, 'undefined')} (95% interval {low} to {high})"
        return f"{self.words}: {found}, goal {self._shown(self.goal, '')}: {self.verdict}"

    def _shown(self, value: float | None, otherwise: str) -> str:
        if value is None:
            return otherwise
        return f"{100 * value:.1f}%" if self.in_percent else f"{value:.2f} times"


def condition_rows(report: Mapping[str, Any]) -> list[ConditionRow]:
    """The full text, then every condition."""
    accuracy, drop = report["accuracy"], report["drop"]
    full = accuracy["full"]
    rows = [ConditionRow("the full text", full, 1.0 if full else None, None)]
    for action, words in ACTIONS.items():
        for order, named in ORDERS.items():
            value = accuracy[action][order]
            ratio = value / full if full else None
            rows.append(ConditionRow(words.format(named), value, ratio, drop[action][order]))
    return rows


def goal_rows(report: Mapping[str, Any]) -> list[GoalRow]:
    """The goals with their verdicts."""
    return [
        GoalRow(
            _GOALS[goal["name"]],
            goal["goal"],
            goal["estimate"],
            goal["low"],
            goal["high"],
            goal["name"].startswith("sufficiency"),
            "met" if goal["secured"] else "met on average" if goal["met"] else "not met",
        )
        for goal in report["goals"]
    ]


def comparison_sentences(report: Mapping[str, Any]) -> list[str]:
    """The drop without the evidence against that without each control, and the areas under the curves."""
    told = []
    for order, words in ORDERS.items():
        if order in report["comprehensiveness_minus"]:
            found = report["comprehensiveness_minus"][order]
            told.append(
                f"Drop without the evidence minus that without {words}: {found['estimate']:+.3f} "
                f"(95% interval {found['low']:+.3f} to {found['high']:+.3f})"
            )
    for action, words in (
        ("removed", "Area under the deletion curve, the smaller the better"),
        ("kept", "Area under the insertion curve, the larger the better"),
    ):
        areas = report["area"][action]
        told.append(
            f"{words}: " + ", ".join(f"{ORDERS[order]} {value:.3f}" for order, value in areas.items())
        )
    return told


def guarantee_sentences(guarantees: Mapping[str, Any]) -> list[str]:
    """Budgets and the bound of the truncation, a sentence for each kind of choice."""
    names = {"chunks": "Chunks", "hop_1": "Neighbours at hop 1", "hop_2": "Neighbours at hop 2"}
    return [
        f"{names[key]}: at most {facts['most_kept']} kept of a budget of {facts['budget']}, "
        f"{facts['over_budget']} of {facts['nodes']} nodes over it; the truncation moves the vector by "
        f"{facts['distance_mean']:.4f} on average ({facts['distance_largest']:.4f} at most) under a mean bound "
        f"2Mδ of {facts['bound_mean']:.4f}, {facts['over_bound']} nodes over their bound"
        for key, facts in guarantees.items()
    ]


def churn_sentences(churn: Mapping[str, Any]) -> list[str]:
    """How much evidence changed between the rounds that are still there."""
    told = []
    for kind, words in (("scored", "with evidence in both"), ("core", "in both cores")):
        for pair in churn[kind]:
            if pair["changed"] is not None:
                told.append(
                    f"Rounds {pair['first']} and {pair['last']}: {100 * pair['changed']:.1f}% of the spans differ, "
                    f"nodes with the same spans: {pair['unchanged_nodes']} of {pair['nodes']} {words}"
                )
            else:
                told.append(f"Rounds {pair['first']} and {pair['last']}: no node is in both cores")
    told += [
        f"Top-B margin up to {group['margin']:.3f}: {100 * group['changed']:.1f}% of the spans of "
        f"{group['nodes']} nodes differ between these rounds"
        for group in churn["by_margin"]
    ]
    return told or ["Evidence of one round only is kept: no churn can be stated"]
