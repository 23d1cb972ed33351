"""What a method on the server gets beside its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fedtag.common.config import RunConfig
from fedtag.common.randomness import torch_generator


def unheard(text: str) -> None:
    """Where nobody listens."""


@dataclass(frozen=True)
class ServerContext:
    """A run as its method sees it.

    Args:
        settings: of the run.
        note: tells a person what should be known at once.
        flower_run: Flower's number of the run; None where Flower has not started it.
    """

    settings: RunConfig
    note: Callable[[str], None] = unheard
    flower_run: str | None = None

    def generator(self, *purpose: str | int) -> torch.Generator:
        """Draws that depend on the run's seed and on what they are for, and on no other draws."""
        return torch_generator(self.settings.seed, *purpose)
