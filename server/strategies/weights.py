"""Client weights: how much each contribution counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedtag.common.errors import WireError

SMOOTHING = 1e-8
LEAST_ACCURACY = 0.01
# Keeps a federation of blank features, whose norms are all 0, from dividing by zero.
LEAST_ATTENTION = 1e-6
# Unit rows under a square matrix of normal draws with deviation 1/√dim stay below 3, save in one or two dimensions.
LARGEST_ATTENTION = 10.0
SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class ClientStatistics:
    """What a client tells of itself for distribution-aware weights.

    Args:
        distribution: P_i, a probability for each class, sum 1.
        attention: ‖softmax(QK^T/√d_k) V‖_F / √m, at least 0.
        accuracy: ACC_i in [0, 1], on its validation nodes; None where these are too few.
    """

    distribution: tuple[float, ...]
    attention: float
    accuracy: float | None


@dataclass(frozen=True)
class Assessment:
    """What distribution-aware weighting makes of one client's statistics.

    Args:
        accuracy: its own, else the mean of the others', else 1.
        attention: as reported.
        divergence: KL(P_i ‖ P_global), at least 0.
        similarity: 1 / (1 + τ KL), in (0, 1].
    """

    accuracy: float
    attention: float
    divergence: float
    similarity: float

    @property
    def factor(self) -> float:
        """Sim_i W_i, to which the weight is proportional (Eq. 10)."""
        return self.similarity * local_weight(self.attention, self.accuracy)


def client_weights(
    kind: str,
    train_nodes: Mapping[str, int],
    statistics: Mapping[str, ClientStatistics] | None = None,
    scaling: float = 1.0,
) -> dict[str, float]:
    """Weights that sum to 1, in the order of names.

    `distribution-aware` weights are w_i ∝ Sim_i W_i (`assessments`). A client without statistics, such as
    a newcomer where those of the last round are used, takes the mean of the others; if nobody has any, the
    weights are those of `samples`.

    Args:
        kind: `samples` (in proportion to training nodes, McMahan et al., 2017), `uniform`, or
            `distribution-aware` (Liu et al., Distribution-Aware Attentive Aggregation, Eq. 5-10).
        train_nodes: training nodes of each contributing client, at least 0.
        statistics: by client; those of clients that do not contribute are not looked at.
        scaling: τ of distribution-aware weights, above 0.

    Returns:
        A weight for each client that has a training node; nothing if none has.
    """
    contributors = {client: count for client, count in sorted(train_nodes.items()) if count > 0}
    if kind == "uniform":
        return {client: 1 / len(contributors) for client in contributors}
    if kind == "distribution-aware":
        known = {c: one.factor for c, one in assessments(contributors, statistics or {}, scaling).items()}
        if known:
            mean = math.fsum(known.values()) / len(known)
            return _shares({client: known.get(client, mean) for client in contributors})
    total = sum(contributors.values())
    return {client: count / total for client, count in contributors.items()}


def assessments(
    train_nodes: Mapping[str, int], statistics: Mapping[str, ClientStatistics], scaling: float = 1.0
) -> dict[str, Assessment]:
    """What Eq. 5-9 of Liu et al. say of each client that has both a training node and statistics.

    W_i = attention_i · max(ACC_i, 0.01); P_global = Σ n_i W_i P_i / Σ n_j W_j; Sim_i = 1 / (1 + τ KL(P_i ‖
    P_global)). The paper's |S_i| is taken as the number of training nodes. Sums are rounded once, at their end,
    so that neither the order nor the names of clients show in any bit.

    Args:
        train_nodes: n_i, at least 0.
        statistics: by client, all of the same number of classes.
        scaling: τ, above 0.

    Returns:
        By client, in the order of names.
    """
    reported = {client: statistics[client] for client in sorted(statistics) if train_nodes.get(client, 0) > 0}
    measured = [one.accuracy for one in reported.values() if one.accuracy is not None]
    usual = math.fsum(measured) / len(measured) if measured else 1.0
    accuracy = {client: usual if one.accuracy is None else one.accuracy for client, one in reported.items()}
    shares = _shares(
        {c: train_nodes[c] * local_weight(one.attention, accuracy[c]) for c, one in reported.items()}
    )
    columns = zip(*(one.distribution for one in reported.values()), strict=True)
    reference = [
        math.fsum(share * p for share, p in zip(shares.values(), column, strict=True)) for column in columns
    ]
    found = {}
    for client, one in reported.items():
        divergence = smoothed_divergence(one.distribution, reference)
        similarity = 1 / (1 + scaling * divergence)
        found[client] = Assessment(accuracy[client], one.attention, divergence, similarity)
    return found


def local_weight(attention: float, accuracy: float) -> float:
    """W_i (Eq. 6), kept above 0 where the norm or the accuracy is 0."""
    return max(attention, LEAST_ATTENTION) * max(accuracy, LEAST_ACCURACY)


def smoothed_divergence(p: tuple[float, ...], q: list[float]) -> float:
    """KL(p ‖ q) (Eq. 8) of two distributions to each of whose entries 1e-8 is added; at least 0."""
    norm = 1 + SMOOTHING * len(p)
    pairs = [((a + SMOOTHING) / norm, (b + SMOOTHING) / norm) for a, b in zip(p, q, strict=True)]
    return max(0.0, math.fsum(a * math.log(a / b) for a, b in pairs))


def parse_statistics(reported: Any, classes: int) -> ClientStatistics:
    """Check what a client tells; its distribution is rescaled to sum 1.

    Args:
        reported: `distribution`, `attention` and `accuracy`, as they came.
        classes: agreed number of classes.

    Raises:
        WireError: if anything is missing, of the wrong form, or out of range.
    """
    table = reported if isinstance(reported, dict) else {}
    distribution = table.get("distribution")
    if (
        not isinstance(distribution, list)
        or len(distribution) != classes
        or not all(_within(p, 1 + SUM_TOLERANCE) for p in distribution)
        or abs(math.fsum(distribution) - 1) > SUM_TOLERANCE
    ):
        raise WireError(f"statistics: distribution must be {classes} probabilities that sum to 1")
    attention, accuracy = table.get("attention"), table.get("accuracy")
    if attention is None or not _within(attention, LARGEST_ATTENTION):
        raise WireError(f"statistics: attention must be a number from 0 to {LARGEST_ATTENTION:g}")
    if accuracy is not None and not _within(accuracy, 1.0):
        raise WireError("statistics: accuracy must be a fraction in [0, 1], or null")
    total = math.fsum(distribution)
    return ClientStatistics(
        tuple(p / total for p in distribution),
        float(attention),
        None if accuracy is None else float(accuracy),
    )


def _within(value: Any, most: float) -> bool:
    # NaN fails both comparisons, and an integer of any length can be compared.
    return type(value) in (int, float) and 0 <= value <= most


def _shares(amounts: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(amounts.values())
    return {client: amount / total for client, amount in amounts.items()}
