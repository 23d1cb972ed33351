"""The faithfulness of a site as the audit page shows it: rows, sentences and curves without any text of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedtag.common.wording.faithfulness import (
    ORDERS,
    PREDICTORS,
    TERMS,
    churn_sentences,
    comparison_sentences,
    condition_rows,
    goal_rows,
    guarantee_sentences,
    verdict_sentences,
)

WIDTH, HEIGHT = 300, 150
_TITLES = {"removed": "Deletion: the strongest chunks removed", "kept": "Insertion: only the strongest kept"}
_AXES = {"removed": "chunks removed", "kept": "chunks kept"}


def faithfulness_view(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What a template needs of a site's faithfulness.json."""
    return {
        "targets": summary["targets"],
        "round": summary["round"],
        "bypass": summary["bypass"],
        "terms": TERMS,
        "sizes": summary["sizes"],
        "predictors": [
            {
                "heading": heading,
                "verdict": verdict_sentences(summary["reports"][key]),
                "rows": condition_rows(summary["reports"][key]),
                "goals": goal_rows(summary["reports"][key]),
                "comparisons": comparison_sentences(summary["reports"][key]),
                "plots": [_plot(title, summary["reports"][key], action) for action, title in _TITLES.items()],
            }
            for key, heading in PREDICTORS.items()
            if key in summary["reports"]
        ],
        "checks": [*guarantee_sentences(summary["guarantees"]), *churn_sentences(summary["churn"])],
    }


def _plot(title: str, report: Mapping[str, Any], action: str) -> dict[str, Any]:
    """Mean probability of the first prediction over the number of chunks, one line an order."""
    lines = [
        {
            "words": ORDERS[order],
            "order": order,
            "points": _points(curve["probability"]),
            "values": ", ".join(f"{value:.3f}" for value in curve["probability"]),
        }
        for order, curve in report["curves"][action].items()
    ]
    steps = _steps(report["curves"][action])
    return {
        "title": title,
        "lines": lines,
        "axis": _AXES[action],
        "ticks": [(f"{WIDTH * place / max(steps, 1):.1f}", place) for place in range(steps + 1)],
    }


def _points(values: Sequence[float]) -> str:
    """Coordinates of a polyline, probabilities from 0 at the bottom to 1 at the top."""
    last = max(len(values) - 1, 1)
    return " ".join(
        f"{WIDTH * place / last:.1f},{HEIGHT * (1 - value):.1f}" for place, value in enumerate(values)
    )


def _steps(curves: Mapping[str, Any]) -> int:
    return max((len(curve["probability"]) - 1 for curve in curves.values()), default=0)
