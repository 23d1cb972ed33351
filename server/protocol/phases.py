"""Exchanges with the clients: what each is for, and what comes of its contributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gathers = Literal["step", "sum", "each", "nothing"]


@dataclass(frozen=True)
class Phase:
    """One exchange with the clients.

    Args:
        name: by which the client's side knows it.
        why: the reason for the exchange, since each costs seconds in a deployment.
        gathers: what becomes of the tensors `update/...` that clients contribute.
            `step`: an update, which moves a section of the state as the run's weights, normalisation, rule and server
            optimiser say. `sum`: sums over nodes, of which the method takes quotients; they are averaged by the
            weights, and nothing else is done to them. Under secure aggregation the server learns no single one of
            either. `each`: contributions that stay single. `nothing`: clients score, or send letters and values.
        moves: the section of the state that a step moves; that of a part in all exchanges of its own.
        letters: whether clients exchange sealed records with one another, which come with the instruction and go
            out with the reply; what is sent in one such phase arrives in the next.
    """

    name: str
    why: str
    gathers: Gathers = "nothing"
    moves: str = "model"
    letters: bool = False

    @property
    def sums(self) -> bool:
        """Whether contributions come together in one sum, so that masks can hide each."""
        return self.gathers in ("step", "sum")
