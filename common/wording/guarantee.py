"""What a differential privacy guarantee says, for every place that shows one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

WEAK_EPSILON = 10.0
LARGEST_EXPONENT = 20.0


def guarantee_sentences(privacy: Mapping[str, Any]) -> list[str]:
    """What a run's differential privacy guarantee says, and what it does not; without full stops.

    Args:
        privacy: of the summary.
    """
    unit = str(privacy.get("unit") or "institution").removeprefix("one ")
    epsilon, delta, rounds = privacy.get("epsilon"), privacy.get("delta"), privacy.get("rounds")
    if epsilon is None:
        return [f"No finite epsilon bounds what the models tell about one {unit}: this run has no guarantee"]
    what, limits = privacy.get("what") or "The global models", privacy.get("limits")
    over = "" if rounds is None else f" of {rounds} round{'' if rounds == 1 else 's'}"
    bound = f"ε = {epsilon:.4g} and δ = {delta or 0.0:g}"
    said = [f"{what}{over} are (ε, δ)-differentially private for one {unit}, with {bound}"]
    said.append(
        f"Whether one {unit} contributed or sent nothing changes the probability of anything that can be concluded "
        f"from all of these by a factor of at most {_factor(epsilon)}, and by δ on top"
    )
    if epsilon >= WEAK_EPSILON:
        said.append("With such a factor the guarantee is weak")
    if privacy.get("mode") == "central":
        said.append("It does not hold towards the server, which adds the noise after it has seen the updates")
    elif privacy.get("mode") in ("local", "distributed"):
        said.append("It holds towards the server, too, which sees sums that already carry the noise")
    if limits:
        return said + list(limits)
    said.append("No node-level or edge-level guarantee is claimed")
    said.append(
        "Reported scores, losses and counts of nodes are outside of it, and so is a way of scoring that they choose: "
        f"they come from each {unit}'s own nodes, without noise; they choose no round, the newest model is released"
    )
    return said


def _factor(epsilon: float) -> str:
    if epsilon > LARGEST_EXPONENT:
        return f"e^{epsilon:.4g}, which is no limit in practice"
    return f"e^ε = {math.exp(epsilon):.4g}"
