"""Who takes part in an exchange, and in which phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedtag.common.config import RunConfig
from fedtag.common.randomness import numpy_generator
from fedtag.server.protocol.phases import Phase

CLOSE = Phase("close", "the final model is scored, and evidence is written for the released one")
SCORE = Phase("score", "clients that do not train in this round score the model all the same")
SCORING_PHASES = frozenset({CLOSE.name, SCORE.name})


def participants(
    nodes: Sequence[int],
    names: Mapping[int, str],
    config: RunConfig,
    round_number: int,
    phase: Phase,
    evaluate: bool,
) -> dict[int, Phase]:
    """The phase of each node that is asked.

    A share `train.client-fraction` of the known clients, drawn by name, takes part in the phase; the others
    only score, if scores are due. A node without a name yet takes part, since that introduces it.
    """
    known = sorted(names[node] for node in nodes if node in names)
    fraction = config.train.client_fraction
    if fraction == 1 or not known or phase in (CLOSE, SCORE):
        return dict.fromkeys(nodes, phase)
    generator = numpy_generator(config.seed, round_number, "sampling")
    chosen = set(generator.choice(known, max(1, round(fraction * len(known))), replace=False).tolist())
    trains = {node: node not in names or names[node] in chosen for node in nodes}
    return {node: phase if trains[node] else SCORE for node in nodes if trains[node] or evaluate}
