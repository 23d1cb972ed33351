"""What ways of scoring and metrics are called and mean, for every place that shows one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCORING = {
    "graph": "the backbone on the original graph with texts that are not fused",
    "evidence": "the backbone on features fused with the selected evidence",
}
"""By the name that a score carries."""

ACCURACY, MACRO_F1 = "accuracy", "macro-f1"
METRICS = {
    ACCURACY: "accuracy",
    MACRO_F1: "macro-F1",
    "balanced-accuracy": "balanced accuracy",
    "auroc": "AUROC",
    "auprc": "AUPRC",
}
"""What the values of `evaluation.metric` are called."""


def chosen_by(config: Mapping[str, Any]) -> str:
    """The metric by which the released round of a run is chosen; runs of earlier versions do not say it.

    Args:
        config: settings, as nested tables.
    """
    found = config.get("evaluation", {}).get("metric", ACCURACY)
    return found if found in METRICS else ACCURACY


def capital(title: str) -> str:
    """A metric's name at the beginning of a heading."""
    return title[:1].upper() + title[1:]


def column(metric: str) -> str:
    """How a metric ends the names of columns: balanced_accuracy."""
    return metric.replace("-", "_")


def deviation(spread: float | None) -> str:
    """A standard deviation, to stand behind a percentage; nothing where it is not known."""
    return "" if spread is None else f" ± {100 * spread:.1f}"


def over_clients(spread: float | None) -> str:
    """The same, with what it is over."""
    return "" if spread is None else f"{deviation(spread)} over clients"
