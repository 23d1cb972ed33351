"""The two stages of a run: search, and retraining of what was found."""

from __future__ import annotations

from common.config import RunConfig


def search_rounds(config: RunConfig) -> int:
    """How many rounds at the start are for the search."""
    return round(config.dadfgas.search_share * config.rounds)


def searches(round_number: int, config: RunConfig) -> bool:
    """Whether a round belongs to the search; its model then is the supernet."""
    return round_number <= search_rounds(config)
