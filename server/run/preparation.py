"""What a method and its parts exchange before round 1, one step after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fedtag.server.protocol.phases import Phase
from fedtag.server.state.checkpoint import CheckpointFolder
from fedtag.server.state.round import Round
from fedtag.server.state.run_state import RunState


def prepare(
    steps: Sequence[Phase],
    exchanged: Callable[[Round, Phase], object],
    run_state: RunState,
    checkpoints: CheckpointFolder,
) -> None:
    """Take the steps that have not been taken yet; after each the run can go on with the next one.

    On the wire they belong to round 1, as do their durations and bytes: clients draw by the number of the round, and
    the first deadline, which leaves time for encoding, is for them.

    Args:
        steps: all of them.
        exchanged: carries one out, and lets the state follow.
        run_state: of the run.
        checkpoints: of the run.
    """
    for phase in steps[run_state.prepared :]:
        start, current = time.monotonic(), Round(1)
        exchanged(current, phase)
        for name, seconds in (*current.seconds.items(), ("bookkeeping", current.left(start))):
            run_state.seconds[name] = run_state.seconds.get(name, 0.0) + seconds
        run_state.up += current.traffic.up
        run_state.down += current.traffic.down
        run_state.prepared += 1
        run_state.save(checkpoints)
