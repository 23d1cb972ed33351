"""The two stages of a run: search, and retraining of what was found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from fedtag.common.models.supernet.logits import cell_logits, layer_weights

SUPERNET, OWN, SHARED = "supernet", "own", "shared"
"""Ways of scoring: of the search's supernet, then of each client's own architecture and of that of all."""

STABLE_ROUNDS = 5
"""Changes of the entropy over so many rounds decide whether it is stable."""


@dataclass(frozen=True)
class Stages:
    """Which rounds belong to the search; its model is the supernet.

    Args:
        searched: rounds of the search, the first ones of the run.
        rounds: of the run.
    """

    searched: int
    rounds: int

    @classmethod
    def planned(cls, share: float, rounds: int, ended: int | None = None) -> Stages:
        """A share of the rounds for the search, or as many as it had when it ended earlier."""
        searched = round(share * rounds)
        return cls(searched if ended is None else min(ended, searched), rounds)

    def searches(self, round_number: int) -> bool:
        """Whether a round belongs to the search."""
        return round_number <= self.searched

    def ends_search(self, round_number: int) -> bool:
        """Whether a round is the last one of the search, after which retraining starts from the initial weights."""
        return round_number == self.searched < self.rounds

    def place(self, round_number: int) -> tuple[int, int]:
        """The number of a round within its stage, from 1, and how many rounds the stage has."""
        if self.searches(round_number):
            return round_number, self.searched
        return round_number - self.searched, self.rounds - self.searched


def architecture_entropy(parameters: Mapping[str, Tensor]) -> float:
    """The mean entropy of operations on an edge and of edges into a node, as a share of the largest one.

    Args:
        parameters: of a supernet, by name; those of the architecture are looked at.

    Returns:
        From 0, where one choice is sure, to 1, where all are alike.
    """
    shares = []
    for logits in cell_logits(parameters):
        for layer in layer_weights(logits).values():
            for p in (layer.operations, layer.edges):
                entropy = -(p * p.clamp_min(1e-30).log()).sum(-1)
                shares.append(float(entropy.mean()) / math.log(p.shape[-1]))
    return sum(shares) / len(shares)


def is_stable(entropies: Sequence[float], tolerance: float) -> bool:
    """Whether the entropy moved by less than a tolerance over the last rounds.

    Args:
        entropies: after each round of the search.
        tolerance: 0 never lets it be stable.
    """
    last = entropies[-STABLE_ROUNDS - 1 :]
    return len(last) > STABLE_ROUNDS and max(last) - min(last) < tolerance
