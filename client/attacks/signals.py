"""What posteriors say of membership: the statistics that threshold attacks compare, larger for likelier members."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

TINY = 1e-30
"""Least number whose logarithm is taken, as in the reference code of Song and Mittal."""

MOST_RANKS = 10
"""Posteriors of a node that the attack model reads at most, the largest ones first."""

Posteriors = Float[np.ndarray, "nodes classes"]
Scores = Float[np.ndarray, " nodes"]


def confidence(posteriors: Posteriors, labels: Int[np.ndarray, " nodes"]) -> Scores:
    """p_y, the posterior of a node's own label; its order is that of the loss attack (Yeom et al., 2018)."""
    return posteriors[np.arange(len(labels)), labels]


def entropy(posteriors: Posteriors) -> Scores:
    """Minus the entropy, Σ p_i log p_i (Shokri et al., 2017); it needs no label."""
    return (posteriors * _log(posteriors)).sum(1)


def modified_entropy(posteriors: Posteriors, labels: Int[np.ndarray, " nodes"]) -> Scores:
    """Minus the modified entropy (Song and Mittal, 2021, Eq. 8).

    Mentr(p, y) = −(1 − p_y) log p_y − Σ_{i ≠ y} p_i log(1 − p_i): 0 for certainty in the right label, largest for
    certainty in a wrong one, where the plain entropy is 0 as well.
    """
    own = posteriors[np.arange(len(labels)), labels]
    terms = posteriors * _log(1 - posteriors)
    wrong = terms.sum(1) - terms[np.arange(len(labels)), labels]
    return (1 - own) * _log(own) + wrong


def sorted_posteriors(posteriors: Posteriors) -> Float[np.ndarray, "nodes ranks"]:
    """What the attack model reads of each node: logarithms of its largest posteriors, in descending order.

    Sorting hides which class is which, so that a model of some classes serves for all (Shokri et al., 2017);
    logarithms tell apart posteriors that are all close to 1 (Carlini et al., 2022).
    """
    return np.log(np.maximum(-np.sort(-posteriors, axis=1)[:, :MOST_RANKS], 1e-12))


def _log(values: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    return np.log(np.maximum(values, TINY))
