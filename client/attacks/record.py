"""What an audit keeps: counts, areas and curves in plain types, and nothing of a single node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedtag.client.attacks.attack import Scored, measured
from fedtag.client.attacks.controls import Control, member_groups
from fedtag.client.attacks.measures import FALSE_POSITIVE_RATES
from fedtag.client.attacks.population import Comparison, Population
from fedtag.client.attacks.resampling import Estimate
from fedtag.client.attacks.targets import Target
from fedtag.client.attacks.transcript import Transcript
from fedtag.common.randomness import numpy_generator

TRAINING = "training nodes"
PSEUDO = "pseudo-labelled nodes"
TRANSCRIPT = "transcript"
DIGITS = 4


def population_record(people: Population) -> dict[str, Any]:
    """How many nodes there are of each kind."""
    groups = member_groups(people)
    return {
        "members": len(groups.members),
        "non_members": len(groups.others),
        "left_out": groups.left_out,
        "shadow_nodes": int(people.shadow.sum()),
        "spare_nodes": int(people.spare.sum()),
        "rates": [round(rate, 6) for rate in FALSE_POSITIVE_RATES.tolist()],
    }


def target_record(
    target: Target, people: Population, scored: Scored, draws: int, seed: int
) -> dict[str, Any]:
    """All attacks on a target, for each group of members that can be compared."""
    groups = {TRAINING: member_groups(people)}
    if target.pseudo_labelled is not None:
        groups[PSEUDO] = member_groups(people, target.pseudo_labelled)
    return {
        "name": target.name,
        "kind": target.kind,
        "member_accuracy": round(float(scored.member_accuracy.mean()), DIGITS),
        "test_accuracy": round(float(scored.other_accuracy.mean()), DIGITS),
        "groups": _groups(target.name, groups, scored.scores, draws, seed),
    }


def transcript_record(seen: Transcript, people: Population, draws: int, seed: int) -> dict[str, Any]:
    """All attacks on what a server saw; there is no model whose accuracy could be told."""
    scored = {name: scores[None] for name, scores in seen.scores.items()}
    return {
        "name": seen.name,
        "kind": TRANSCRIPT,
        "member_accuracy": None,
        "test_accuracy": None,
        "groups": _groups(seen.name, {TRAINING: member_groups(people)}, scored, draws, seed),
    }


def _groups(
    name: str, groups: Mapping[str, Comparison], scored: Mapping[str, np.ndarray], draws: int, seed: int
) -> dict[str, Any]:
    """All attacks on a target, for each group of members that can be compared."""
    records: dict[str, Any] = {}
    for group, compared in groups.items():
        if compared.is_empty:
            continue
        attacks = {}
        for attack, scores in scored.items():
            found = measured(scores, compared, draws, numpy_generator(seed, name, group, attack))
            attacks[attack] = {
                **estimate_record(found.auc),
                "low_rate": None if found.low_rate is None else round(found.low_rate, DIGITS),
                "curve": np.round(found.curve, DIGITS).tolist(),
            }
        records[group] = {
            "members": len(compared.members),
            "non_members": len(compared.others),
            "attacks": attacks,
        }
    return records


def without_curves(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a target with areas alone, as a series of them needs it."""
    groups = {
        name: {
            **group,
            "attacks": {
                attack: {key: value for key, value in found.items() if key != "curve"}
                for attack, found in group["attacks"].items()
            },
        }
        for name, group in record["groups"].items()
    }
    return {**record, "groups": groups}


def control_record(control: Control) -> dict[str, Any]:
    """One control."""
    return {
        "name": control.name,
        "attack": control.attack,
        **estimate_record(control.auc),
        "verdict": control.verdict,
    }


def estimate_record(estimate: Estimate) -> dict[str, float]:
    """An area and its interval."""
    return {
        "auc": round(estimate.mean, DIGITS),
        "low": round(estimate.low, DIGITS),
        "high": round(estimate.high, DIGITS),
    }
