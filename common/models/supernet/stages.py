"""The two stages of a run: search, and retraining of what was found."""

from __future__ import annotations

from common.config import RunConfig


def search_rounds(config: RunConfig) -> int:
    """How many rounds at the start are for the search."""
    return round(config.dadfgas.search_share * config.rounds)


def stage_round(round_number: int, config: RunConfig) -> tuple[int, int]:
    """The number of a round within its stage, from 1, and how many rounds the stage has."""
    searched = search_rounds(config)
    if searches(round_number, config):
        return round_number, searched
    return round_number - searched, config.rounds - searched


def ends_search(round_number: int, config: RunConfig) -> bool:
    """Whether a round is the last one of the search, after which retraining starts from the initial weights."""
    return round_number == search_rounds(config) < config.rounds


def searches(round_number: int, config: RunConfig) -> bool:
    """Whether a round belongs to the search; its model then is the supernet."""
    return round_number <= search_rounds(config)
