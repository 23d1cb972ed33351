"""Which rounds of FedGC do what."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedtag.common.config import RunConfig


def teaching_rounds(config: RunConfig) -> int:
    """The rounds of self-training, which come first; none where nothing needs their model."""
    settings = config.fedgc
    return settings.self_training_rounds if settings.self_training or settings.bottleneck else 0


def teaches(round_number: int, config: RunConfig) -> bool:
    """Whether a round is one of self-training."""
    return round_number <= teaching_rounds(config)


def is_scored(round_number: int, config: RunConfig) -> bool:
    """Whether the model of a round is scored, and therefore made."""
    return round_number > 0 and (round_number % config.evaluation.every == 0 or round_number == config.rounds)
