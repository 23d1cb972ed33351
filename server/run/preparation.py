"""What a method and its parts exchange before round 1, one step after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fedtag.server.exchange.phases import Turn
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.checkpoint import CheckpointFolder
from fedtag.server.state.run_state import Standing


def prepare(
    steps: Sequence[Phase],
    exchanged: Callable[[Turn, Phase], object],
    standing: Standing,
    checkpoints: CheckpointFolder,
) -> None:
    """Take the steps that have not been taken yet; after each the run can go on with the next one.

    On the wire they belong to round 1, as do their durations and bytes: clients draw by the number of the round, and
    the first deadline, which leaves time for encoding, is for them.

    Args:
        steps: all of them.
        exchanged: carries one out, and lets the state follow.
        standing: of the run.
        checkpoints: of the run.
    """
    for phase in steps[standing.prepared :]:
        start, turn = time.monotonic(), Turn(1)
        exchanged(turn, phase)
        for name, seconds in (*turn.seconds.items(), ("bookkeeping", turn.left(start))):
            standing.seconds[name] = standing.seconds.get(name, 0.0) + seconds
        standing.up += turn.traffic.up
        standing.down += turn.traffic.down
        standing.prepared += 1
        standing.save(checkpoints)
