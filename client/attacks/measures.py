"""How well scores tell members from non-members: area under the ROC curve, the curve, and its start."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from sklearn.metrics import roc_auc_score, roc_curve

LOW_RATE = 0.01
"""False positive rate at which the true positive rate is told (Carlini et al., 2022)."""

LEAST_NON_MEMBERS = 500
"""Under so many non-members, fewer than five lie beyond that rate, and nothing is told of it."""

FALSE_POSITIVE_RATES = np.logspace(-3, 0, 31)
"""Where curves are kept."""

ROUNDING = 1e-9

Members = Float[np.ndarray, " members"]
Others = Float[np.ndarray, " others"]


def area(members: Members, others: Others, weights: Others) -> float:
    """The chance that a member scores above a non-member drawn by weight, ties counting half."""
    truth, scores, sizes = _together(members, others, weights)
    return float(roc_auc_score(truth, scores, sample_weight=sizes))


def true_positive_rates(
    members: Members, others: Others, weights: Others, rates: Float[np.ndarray, " rates"]
) -> Float[np.ndarray, " rates"]:
    """The largest share of members above a threshold over which at most such a share of non-members lies.

    Nothing is interpolated between thresholds.

    Args:
        members, others: scores, larger for likelier members.
        weights: of the non-members, above 0.
        rates: false positive rates in [0, 1].
    """
    truth, scores, sizes = _together(members, others, weights)
    false, true, _ = roc_curve(truth, scores, sample_weight=sizes, drop_intermediate=False)
    return true[np.searchsorted(false, rates + ROUNDING, side="right") - 1]


def low_rate(members: Members, others: Others, weights: Others) -> float | None:
    """The true positive rate at 1% false positives; None with too few non-members to measure it."""
    if len(others) < LEAST_NON_MEMBERS:
        return None
    return float(true_positive_rates(members, others, weights, np.array([LOW_RATE]))[0])


def resampled_areas(
    members: Members,
    others: Others,
    member_counts: Float[np.ndarray, "draws members"],
    other_weights: Float[np.ndarray, "draws others"],
) -> Float[np.ndarray, " draws"]:
    """The area for each of many weightings of the nodes at once.

    Sorted by score, cumulative weights of the non-members say how much lies under each member:
    AUC = Σ_m c_m (W(s < s_m) + W(s = s_m) / 2) / (Σ c Σ w).

    Args:
        members, others: scores.
        member_counts: weight of every member in a draw.
        other_weights: weight of every non-member in a draw.
    """
    order = np.argsort(others, kind="stable")
    ranked = others[order]
    below = np.concatenate(
        [np.zeros((len(other_weights), 1)), np.cumsum(other_weights[:, order], axis=1)], axis=1
    )
    under = below[:, np.searchsorted(ranked, members, side="left")]
    at_most = below[:, np.searchsorted(ranked, members, side="right")]
    total = member_counts.sum(1) * below[:, -1]
    return (member_counts * (under + at_most)).sum(1) / (2 * total)


def _together(
    members: Members, others: Others, weights: Others
) -> tuple[np.ndarray, Float[np.ndarray, " both"], Float[np.ndarray, " both"]]:
    truth = np.concatenate([np.ones(len(members), bool), np.zeros(len(others), bool)])
    return truth, np.concatenate([members, others]), np.concatenate([np.ones(len(members)), weights])
