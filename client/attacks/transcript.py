"""What sums that a server saw tell of single nodes: whether a node's own gradient is a term of them.

A sum of gradients at known weights is linear in who contributed. Whoever knows a node's features and label can compute
its term and project the sum on it; whoever knows the rows of all candidates can solve for who contributed, as far as
there are fewer candidates than numbers in a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.attacks.signals import Scores
from fedtag.common.wire.records import Content

PROJECTION = "projection"
INSIDER = "insider who knows the rows"
RIDGE = 1e-3
"""Of the mean squared norm of the candidates' gradients: noise in sums must not be taken for contributions."""
MOST_EXCHANGES = 6
"""Exchanges of a phase that an attack reads, the first ones; without noise more tell little that these do not."""
MOST_CANDIDATES = 512
"""Nodes among which is solved at a time."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What a server that keeps to the protocol saw of one exchange.

    Args:
        phase: its name.
        round: its number.
        told: what clients were asked with.
        parts: what came of clients that did not come to one sum, by whose it is: of each in clear, under masks the mean
            of each group; empty where there is one sum alone.
        total: what it came to over all clients, in any unit.
        sizes: training nodes of the clients, as far as they were told.
    """

    phase: str
    round: int
    told: Content
    parts: Mapping[tuple[str, ...], Mapping[str, Tensor]]
    total: Mapping[str, Tensor]
    sizes: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Transcript:
    """One kind of sums that the server saw, and what attacks on them say of every node.

    Args:
        name: told in tables.
        scores: by attack; larger for likelier members.
    """

    name: str
    scores: Mapping[str, Scores]


@dataclass(eq=False)
class Candidates:
    """Nodes that may be behind a sum, and what exchanges have told of them so far.

    Args:
        rows: their places in the population.
    """

    rows: Int[np.ndarray, " candidates"]
    _projection: Tensor = field(init=False)
    _inner: Tensor = field(init=False)
    _gram: Tensor = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.rows)
        self._projection, self._inner = torch.zeros(2, count, dtype=torch.float64)
        self._gram = torch.zeros(count, count, dtype=torch.float64)

    def add(self, gradients: Float[Tensor, "candidates values"], total: Float[Tensor, " values"]) -> None:
        """Read one exchange.

        Args:
            gradients: each candidate's own term, should it be behind the sum.
            total: the sum, in the unit of the terms where shares are compared between sums.
        """
        size = total.double().norm().clamp_min(1e-30)
        inner = (gradients @ total.to(gradients)).double() / size
        self._projection += inner / gradients.double().norm(dim=1).clamp_min(1e-30)
        self._inner += inner
        self._gram += (gradients @ gradients.T).double() / size

    def scores(self) -> dict[str, Float[np.ndarray, " candidates"]]:
        """The mean cosine of sums with each candidate's term; the candidates' shares by least squares."""
        ridge = RIDGE * self._gram.diagonal().mean().clamp_min(1e-30)
        shares = torch.linalg.solve(self._gram + ridge * torch.eye(len(self.rows)), self._inner)
        return {PROJECTION: self._projection.numpy(), INSIDER: shares.numpy()}


def parted(rows: Int[np.ndarray, " nodes"]) -> list[Int[np.ndarray, " candidates"]]:
    """Nodes in parts among which can be solved."""
    return [rows[begin : begin + MOST_CANDIDATES] for begin in range(0, len(rows), MOST_CANDIDATES)]


def transcript(name: str, candidates: Sequence[Candidates], nodes: int) -> Transcript:
    """What was found of all candidates, as scores of the population; of other nodes they mean nothing.

    Args:
        name: told in tables.
        candidates: each node at most once.
        nodes: of the population.
    """
    found = {attack: np.zeros(nodes) for attack in (PROJECTION, INSIDER)}
    for one in candidates:
        for attack, scores in one.scores().items():
            found[attack][one.rows] = scores
    return Transcript(name, found)
