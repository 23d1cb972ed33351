"""All attacks on one target, and how well they tell its members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from fedtag.client.attacks.measures import FALSE_POSITIVE_RATES, area, low_rate, true_positive_rates
from fedtag.client.attacks.population import Comparison, Population
from fedtag.client.attacks.resampling import Estimate, mean_area
from fedtag.client.attacks.shadow import ShadowAttacker
from fedtag.client.attacks.signals import Posteriors, Scores, confidence, entropy, modified_entropy
from fedtag.client.attacks.targets import Target

SHADOW = "shadow model"
THRESHOLDS = ("confidence", "entropy", "modified entropy")


@dataclass(frozen=True, eq=False)
class Scored:
    """What attacks say of every node.

    Args:
        scores: by attack and model.
        member_accuracy, other_accuracy: of each model on the training and on the test nodes.
    """

    scores: Mapping[str, Float[np.ndarray, "models nodes"]]
    member_accuracy: Float[np.ndarray, " models"]
    other_accuracy: Float[np.ndarray, " models"]


@dataclass(frozen=True, eq=False)
class Measured:
    """How well one attack tells members.

    Args:
        auc: area under the ROC curve, over models.
        low_rate: true positive rate at 1% false positives, mean over models; None where it was not measured.
        curve: mean true positive rate at each of `FALSE_POSITIVE_RATES`.
    """

    auc: Estimate
    low_rate: float | None
    curve: Float[np.ndarray, " rates"]


def attacked(
    target: Target,
    people: Population,
    attacker: ShadowAttacker,
    seeds: tuple[int, ...],
    done: Callable[[int], None] = lambda count: None,
) -> Scored:
    """Every attack on the models of some seeds.

    Args:
        target: what is attacked.
        people: the audited nodes.
        attacker: who has shadow nodes.
        seeds: of models, and of shadow models.
        done: told how many seeds are done.
    """
    found: dict[str, list[Scores]] = {}
    accuracies = []
    for number, seed in enumerate(seeds, start=1):
        said = target.posteriors(seed)
        for name, scores in attack_scores(said, people, attacker, target, seed).items():
            found.setdefault(name, []).append(scores)
        right = said.argmax(1) == people.labels
        accuracies.append(
            [_share(right, mask.cpu().numpy()) for mask in (people.members, people.non_members)]
        )
        done(number)
    inside, outside = np.array(accuracies).T
    return Scored({name: np.stack(rows) for name, rows in found.items()}, inside, outside)


def attack_scores(
    said: Posteriors, people: Population, attacker: ShadowAttacker, target: Target, seed: int
) -> dict[str, Scores]:
    """Every attack on one model; scores of nodes without a label mean nothing."""
    labels = people.labels
    scores = {
        "confidence": confidence(said, labels),
        "entropy": entropy(said),
        "modified entropy": modified_entropy(said, labels),
    }
    if attacker.can_attack:
        scores[SHADOW] = attacker.scores(said, target.recipe, seed)
    return scores


def areas(scores: Float[np.ndarray, "models nodes"], groups: Comparison) -> Float[np.ndarray, " models"]:
    """The area of each model."""
    return np.array([area(row[groups.members], row[groups.others], groups.weights) for row in scores])


def measured(
    scores: Float[np.ndarray, "models nodes"], groups: Comparison, draws: int, generator: np.random.Generator
) -> Measured:
    """An attack's area with its interval, and its curve.

    Args:
        scores: by model.
        groups: not empty.
        draws: of the bootstrap.
        generator: of these.
    """
    inside, outside = scores[:, groups.members], scores[:, groups.others]
    pairs = list(zip(inside, outside, strict=True))
    rates = [low_rate(mine, theirs, groups.weights) for mine, theirs in pairs]
    known = [rate for rate in rates if rate is not None]
    return Measured(
        mean_area(inside, outside, groups.weights, areas(scores, groups), draws, generator),
        float(np.mean(known)) if known else None,
        np.mean([true_positive_rates(*pair, groups.weights, FALSE_POSITIVE_RATES) for pair in pairs], axis=0),
    )


def _share(right: np.ndarray, mask: np.ndarray) -> float:
    return float(right[mask].mean()) if mask.any() else float("nan")
