"""What may change where a finished run is extended, and what that means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtag.common.config.run_config import PARENT, PLACES, RunConfig

CHANGING = ("rounds", *PARENT, *PLACES)
"""Settings of which a run that extends another has its own values."""


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """What differs between a run and one that is to extend it although it must not, a phrase each.

    Args:
        before, now: settings by dotted key.
    """
    return tuple(
        f"{key} = {before.get(key, 'unset')} there, {now.get(key, 'unset')} here"
        for key in sorted(before.keys() | now.keys())
        if key not in CHANGING and before.get(key) != now.get(key)
    )


def depending_on_rounds(config: RunConfig) -> tuple[str, ...]:
    """What follows from the number of rounds of a run that extends another, sentences without full stops."""
    done, rounds = config.parent.rounds, config.rounds
    told = []
    if config.train.schedule != "constant":
        told.append(
            f"train.schedule = {config.train.schedule}: step sizes of rounds 1 to {done} followed a schedule over "
            f"fewer rounds, those from {done + 1} follow one over {rounds}, so that this is not the run of {rounds} "
            "rounds that began anew"
        )
    if config.privacy.dp.mode != "off" or config.spec.noises(config.to_flat()):
        told.append(
            f"the guarantee of differential privacy is over all {rounds} rounds, those of the run that is extended "
            "included"
        )
    return tuple(told)
