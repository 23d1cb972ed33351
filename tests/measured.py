"""A measurement of faithfulness as it stands in a file, for the tests of everything that shows one."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtag.client.evidence.faithfulness import (
    DENSE,
    EVIDENCE,
    RANDOM,
    SELECTED,
    Outcomes,
    Readings,
    faithfulness_report,
)

ORDERS = (EVIDENCE, RANDOM, SELECTED, DENSE)


def summary_of_two() -> dict[str, Any]:
    """Two targets and two steps, with the bypass on and off; without evidence p falls from 0.8 to 0.6 and 0.3."""

    def constant(*steps: float) -> Readings:
        return Readings(np.array([steps, steps]), np.array([[step > 0.5 for step in steps]] * 2))

    def curves(*steps: float) -> dict[str, Readings]:
        flat = constant(*[steps[0]] * len(steps))
        short = constant(steps[0], steps[-1])
        return {EVIDENCE: constant(*steps), RANDOM: flat, SELECTED: short, DENSE: constant(*steps)}

    near = {name: constant(0.7) for name in ORDERS}
    outcomes = Outcomes(constant(0.8), curves(0.8, 0.6, 0.3), curves(0.2, 0.6, 0.7), near)
    report = faithfulness_report(outcomes, 0, resamples=20)
    effect = {
        "nodes": 2,
        "budget": 4,
        "most_kept": 3,
        "over_budget": 0,
        "distance_mean": 0.01,
        "distance_largest": 0.2,
        "bound_mean": 0.03,
        "share_of_bound_largest": 0.5,
        "over_bound": 0,
    }
    kinds = ("selected", "candidate", "neighbourhood")
    pair = {"first": 3, "last": 5, "nodes": 2, "changed": 0.25, "unchanged_nodes": 1}
    return {
        "schema": 1,
        "model": "9f2c",
        "round": 12,
        "seed": 0,
        "resamples": 20,
        "confidence": 0.95,
        "sites": 1,
        "targets": 2,
        "bypass": True,
        "reports": {"as_trained": report, "bypass_off": report},
        "sizes": {f"{kind}_{what}": 2.5 for kind in kinds for what in ("nodes", "chunks", "tokens")},
        "guarantees": {"hop_1": effect, "hop_2": effect, "chunks": effect},
        "churn": {
            "scored": [pair],
            "core": [{**pair, "nodes": 0, "changed": None, "unchanged_nodes": 0}],
            "by_margin": [{"margin": 0.5, "nodes": 2, "changed": 0.25}],
        },
    }
