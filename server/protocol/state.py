"""What a method knows between exchanges, and what it gets of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from fedtag.common.wire.records import Content


@dataclass(frozen=True)
class Agreement:
    """What all clients of a run have in common, from their introductions in their first reply."""

    classes: tuple[str, ...]
    dimension: int
    features: str


@dataclass(frozen=True)
class ServerState:
    """All that a method knows between exchanges; it is the checkpoint.

    Args:
        tensors: named by paths, whose first part is the section; "model/..." is the global model.
        values: JSON-able.
    """

    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any] = field(default_factory=dict)

    def section(self, name: str) -> dict[str, Tensor]:
        """The tensors of one section, without the prefix."""
        return Content(self.tensors).section(name)


@dataclass(frozen=True)
class Aggregate:
    """What the contributions to a phase came to.

    Args:
        step: the combined update or sum, by the names of its tensors; empty without contributors, and where the phase
            gathers single contributions or nothing.
        moved: the section of the state that the phase moves, after the server optimiser took the step; empty where it
            took none.
        weights: w_i of those who contributed.
    """

    step: Mapping[str, Tensor]
    moved: Mapping[str, Tensor]
    weights: Mapping[str, float]
