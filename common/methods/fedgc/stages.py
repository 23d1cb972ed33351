"""Which rounds of FedGC do what."""

from __future__ import annotations

from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.settings.run_settings import RunSettings


def teaching_rounds(own: FedGCConfig) -> int:
    """The rounds of self-training, which come first; none where nothing needs their model."""
    return own.self_training_rounds if own.learn_from != "training" or own.bottleneck else 0


def teaches(round_number: int, settings: RunSettings) -> bool:
    """Whether a round is one of self-training."""
    return round_number <= teaching_rounds(settings.own(FedGCConfig))


def is_scored(round_number: int, settings: RunSettings) -> bool:
    """Whether the model of a round is scored, and therefore made."""
    due = round_number % settings.evaluation.every == 0 or round_number == settings.rounds
    return round_number > 0 and due
