"""What a faithfulness report says, row by row, for every place that shows one.

A report is the plain object that a site's or a run's faithfulness.json holds for one predictor: means over
nodes, intervals and goals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedtag.common.wording.signs import signed

PREDICTORS = {
    "as_trained": "The model as it is",
    "bypass_off": "The same with the bypass off: the features that reach the prediction without passing the "
    "selection (propagated from neighbours, and of whole documents) at zero throughout",
}
"""Keys of the reports in a faithfulness.json, in order, with their headings."""

TERMS = (
    "A chunk is a short passage of a text; the evidence is the few chunks that the model selected for a node",
    "Random chunks are drawn in the same number from all chunks that could have been selected (the candidates)",
    (
        "Dense attention is what the model would look at without any selection: it weighs all candidates at once, "
        "and its strongest ones, in the same number, are compared with the evidence"
    ),
)
"""What the words of the rows mean, for a reader who does not know the method."""

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
FEW = 50
"""Under so many measured nodes no verdict is read off."""

TINY = 0.01
"""A mean drop in probability under one point says little, whatever its ratio to another."""

_BOUND = (
    " (the method's bound 2Mδ for each node: δ is the weight that the budget leaves out, M the length of the "
    "longest vector that could be chosen)"
)
_MARGIN = "Margin, by which the last chunk that the budget kept outscored the first left out (top-B margin),"
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
        verdict: `met`, `met on average` (the interval reaches below the goal), `not met`, `cannot be told` (there
            is no estimate), or of a ratio of drops under one point `cannot be told, both drops are tiny`.
        drops: where the values are a ratio of drops in probability, these two.
    """

    words: str
    goal: float
    estimate: float | None
    low: float | None
    high: float | None
    in_percent: bool
    verdict: str
    drops: tuple[float, float] | None = None

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        low, high = self._shown(self.low, "undefined"), self._shown(self.high, "no bound")
        found = f"{self._shown(self.estimate, 'undefined')} (95% interval {low} to {high})"
        if self.drops is not None:
            found += f", a drop of {signed(self.drops[0], 3)} over one of {signed(self.drops[1], 3)}"
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
    fell = report["drop"]["removed"]
    rows = []
    for goal in report["goals"]:
        in_percent = goal["name"].startswith("sufficiency")
        drops = None if in_percent else (fell["evidence"], fell["random"])
        rows.append(
            GoalRow(
                _GOALS[goal["name"]],
                goal["goal"],
                goal["estimate"],
                goal["low"],
                goal["high"],
                in_percent,
                _judged(goal, drops),
                drops,
            )
        )
    return rows


def _judged(goal: Mapping[str, Any], drops: tuple[float, float] | None) -> str:
    if goal["estimate"] is None:
        return "cannot be told"
    if drops is not None and max(map(abs, drops)) < TINY:
        return "cannot be told, both drops are tiny"
    return "met" if goal["secured"] else "met on average" if goal["met"] else "not met"


def verdict_sentences(report: Mapping[str, Any]) -> list[str]:
    """In two sentences: is the evidence enough, does it matter; does dense attention explain as well?

    Each follows from a 95% interval; with few nodes a warning stands in their place.
    """
    if report["targets"] < FEW:
        nodes = "1 node was" if report["targets"] == 1 else f"{report['targets']} nodes were"
        return [
            f"Few nodes: wide intervals, read no verdict into them ({nodes} measured, {FEW} are the least)"
        ]
    return [f"{_enough(report)}, and {_matters(report)}", _beside_dense(report)]


def _enough(report: Mapping[str, Any]) -> str:
    goal = next(goal for goal in report["goals"] if goal["name"] == "sufficiency")
    low, high, wanted = goal["low"], goal["high"], f"{100 * goal['goal']:.0f}%"
    if goal["estimate"] is None:
        return "Whether the evidence alone is enough cannot be told"
    kept = f"{100 * goal['estimate']:.1f}% of the accuracy"
    if low is not None and low >= goal["goal"]:
        return f"The evidence alone is enough: it keeps {kept} (goal {wanted})"
    if high is not None and high < goal["goal"]:
        return f"The evidence alone is not enough: it keeps {kept} (goal {wanted})"
    return f"Whether the evidence alone is enough cannot be told: it keeps {kept} (goal {wanted})"


def _matters(report: Mapping[str, Any]) -> str:
    beyond, fell = report["comprehensiveness_minus"]["random"], report["drop"]["removed"]
    drops = (
        f"the mean drop in probability is {100 * fell['evidence']:.1f} points without it and "
        f"{100 * fell['random']:.1f} without as many random chunks"
    )
    if beyond["low"] <= 0:
        return f"it is not shown to matter more than random text: {drops}"
    if fell["evidence"] < TINY:
        return f"it matters more than random text, but hardly: {drops}"
    return f"it matters more than random text: {drops}"


def _beside_dense(report: Mapping[str, Any]) -> str:
    beyond = report["comprehensiveness_minus"]["dense_attention"]
    difference = (
        f"the drop without the evidence minus that without dense attention's chunks: "
        f"{signed(100 * beyond['estimate'], 1)} points, 95% interval {signed(100 * beyond['low'], 1)} to "
        f"{signed(100 * beyond['high'], 1)}"
    )
    if beyond["low"] > 0:
        return f"Dense attention explains the predictions less well than the evidence ({difference})"
    if beyond["high"] < 0:
        return f"Dense attention explains the predictions better than the evidence ({difference})"
    return f"Dense attention explains the predictions about as well as the evidence ({difference})"


def comparison_sentences(report: Mapping[str, Any]) -> list[str]:
    """The drop without the evidence against that without each control, and the areas under the curves."""
    told = []
    for order, words in ORDERS.items():
        if order in report["comprehensiveness_minus"]:
            found = report["comprehensiveness_minus"][order]
            told.append(
                f"Drop without the evidence minus that without {words}: {signed(found['estimate'], 3)} "
                f"(95% interval {signed(found['low'], 3)} to {signed(found['high'], 3)})"
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
        f"{facts['over_budget']} of {facts['nodes']} nodes over it; leaving out the others moves the vector by "
        f"{facts['distance_mean']:.4f} on average ({facts['distance_largest']:.4f} at most), where "
        f"{facts['bound_mean']:.4f} is allowed on average{_BOUND if not place else ''}, {facts['over_bound']} "
        f"nodes over their bound"
        for place, (key, facts) in enumerate(guarantees.items())
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
        f"{_MARGIN if not place else 'Margin'} up to {group['margin']:.3f}: {100 * group['changed']:.1f}% of the "
        f"spans of {group['nodes']} nodes differ between these rounds"
        for place, group in enumerate(churn["by_margin"])
    ]
    return told or ["Evidence of one round only is kept: no churn can be stated"]
