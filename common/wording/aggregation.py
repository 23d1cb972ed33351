"""What the settings of aggregation and privacy mean, and what a differential privacy guarantee says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fedtag.common.secure.phases import FEWEST_USERS

WEIGHTS = {
    "samples": "A client's weight is its share of the training nodes (samples)",
    "uniform": "All clients that contribute weigh the same (uniform)",
    "distribution-aware": (
        "A client weighs more the better it scores and the nearer its predicted classes are to those of all clients "
        "(distribution-aware; DA-DFGAS, Eq. 5–10)"
    ),
}
STATISTICS = {
    "current": "The statistics behind a weight arrive with the update that it weighs",
    "previous": "The statistics behind a weight are those of the round before; round 1 weighs by training nodes",
}
RULES = {
    "median": "The median of every coordinate is taken; all clients count alike (median)",
    "trimmed-mean": (
        "Of every coordinate the highest and the lowest {trim:.0%} are cut off before the mean; all clients count "
        "alike (trimmed-mean)"
    ),
    "krum": "The update nearest to its neighbours is taken, assuming {hostile} hostile (krum)",
    "multi-krum": "The updates nearest to their neighbours are averaged, assuming {hostile} hostile (multi-krum)",
    "bulyan": "Updates are chosen by Krum and averaged around their median, assuming {hostile} hostile (bulyan)",
}
NORMALISATIONS = {
    "none": "Updates count as they are, however many local steps they took",
    "fednova": "Updates are divided by an effective number of local steps, lest longer work pull harder (FedNova)",
}
NOT_COMBINED = {
    "isolated": "Nothing is combined: every client keeps a model of its own",
    "centralised": "Nothing is combined: one client holds the whole graph",
}
OWN_ARCHITECTURES = (
    "Clients do not tell their architectures, which lie in their own state folders; the server learns how many clients "
    f"use a tensor, leaves one with fewer than {FEWEST_USERS} users as it was, and of all others learns the sum of "
    "their users' weights, which can tell who they are where weights differ"
)
WEAK_EPSILON = 10.0
LARGEST_EXPONENT = 20.0


def combination_sentences(settings: Mapping[str, Any], method: str, lag: int | None) -> list[str]:
    """How updates become one model, without full stops; settings that a run of an earlier version lacks are left out.

    Args:
        settings: by dotted key.
        method: of the run.
        lag: `weights_lag` of the summary.
    """
    if method in NOT_COMBINED:
        return [NOT_COMBINED[method]]
    rule, weights = settings.get("aggregation.rule"), settings.get("aggregation.weights")
    said = []
    if rule in RULES:
        trim, hostile = settings.get("aggregation.trim", 0.0), settings.get("aggregation.hostile", 0)
        said.append(RULES[rule].format(trim=trim, hostile=hostile))
    elif weights in WEIGHTS:
        said.append(WEIGHTS[weights])
        if weights == "distribution-aware":
            said.append(STATISTICS["previous" if lag else settings.get("aggregation.statistics", "current")])
    said += [NORMALISATIONS[key] for key in [settings.get("aggregation.normalise")] if key in NORMALISATIONS]
    return said + _steps(settings)


def _steps(settings: Mapping[str, Any]) -> list[str]:
    said = []
    optimiser, rate = (
        settings.get("aggregation.server-optimiser"),
        settings.get("aggregation.server-rate", 1.0),
    )
    if optimiser == "none":
        said.append("The combined update is added to the model" + ("" if rate == 1 else f", times {rate:g}"))
    elif optimiser is not None:
        said.append(
            f"The server takes the combined update as the gradient of {optimiser}, with step size {rate:g}"
        )
    if bound := settings.get("aggregation.max-update-norm"):
        said.append(f"Updates with an L2 norm beyond {bound:g} are left out")
    if (decay := settings.get("aggregation.average-decay", 0.0)) > 0:
        said.append(f"An average of the model over rounds (decay {decay:g}) is what is scored and released")
    if (fraction := settings.get("train.client-fraction", 1.0)) < 1:
        said.append(f"{fraction:.0%} of the clients, drawn anew, train in a round")
    return said


def privacy_sentences(settings: Mapping[str, Any], method: str) -> list[str]:
    """What hides a client's part from the server, or that nothing does; without full stops."""
    said = []
    if method == "isolated":
        said.append("No update leaves a client; its counts and scores do")
    elif "privacy.secure-aggregation" in settings:
        said += _masks(settings)
        if (
            settings["privacy.secure-aggregation"]
            and method == "da_dfgas"
            and settings.get("dadfgas.personal")
        ):
            said.append(OWN_ARCHITECTURES)
    mode = settings.get("privacy.dp.mode")
    if mode == "off":
        said.append("No noise is added to updates: there is no differential privacy")
    elif mode is not None:
        said.append(_noise(settings, mode))
    if method == "dance" and (scale := settings.get("dance.noise", 0.0)):
        said.append(
            f"Laplace noise of scale {scale:g} on the core's fused representations tests robustness to noise; it is no "
            "guarantee"
        )
    return said


def _masks(settings: Mapping[str, Any]) -> list[str]:
    if not settings["privacy.secure-aggregation"]:
        return ["The server sees each client's update in clear"]
    return [
        "Clients mask their updates: the server learns their weighted sum and no single one (secure aggregation)",
        "Sites pin each other's keys in a roster and sign members, weights and survivors: a server that tells them "
        "different things is found out"
        if settings.get("privacy.roster")
        else "Without a roster the server is trusted to relay the clients' keys unchanged",
        "Scores, losses and counts of nodes are summed under the masks, too"
        if settings.get("privacy.hide-statistics")
        else "Each client's scores, loss and counts of nodes are sent in clear",
    ]


def _noise(settings: Mapping[str, Any], mode: str) -> str:
    clip, noise = settings.get("privacy.dp.clip", 1.0), settings.get("privacy.dp.noise", 1.0)
    adds = "the server adds it" if mode == "central" else "each client adds a part of it under its mask"
    if mode == "distributed" and (colluders := settings.get("privacy.dp.colluders")):
        adds += f", enough of it even if {colluders} reveal{'s' if colluders == 1 else ''} theirs"
    return (
        f"Updates are clipped to an L2 norm of {clip:g}; Gaussian noise with standard deviation {noise * clip:g} is on "
        f"their sum: {adds} (differential privacy, {mode})"
    )


def guarantee_sentences(privacy: Mapping[str, Any]) -> list[str]:
    """What a run's differential privacy guarantee says, and what it does not; without full stops.

    Args:
        privacy: of the summary.
    """
    unit = str(privacy.get("unit") or "institution").removeprefix("one ")
    epsilon, delta, rounds = privacy.get("epsilon"), privacy.get("delta"), privacy.get("rounds")
    if epsilon is None:
        return [f"No finite epsilon bounds what the models tell about one {unit}: this run has no guarantee"]
    over = "" if rounds is None else f" of {rounds} round{'' if rounds == 1 else 's'}"
    bound = f"ε = {epsilon:.4g} and δ = {delta or 0.0:g}"
    said = [f"The global models{over} are (ε, δ)-differentially private for one {unit}, with {bound}"]
    said.append(
        f"Whether one {unit} contributed or sent nothing changes the probability of anything that can be concluded "
        f"from all of these models by a factor of at most {_factor(epsilon)}, and by δ on top"
    )
    if epsilon >= WEAK_EPSILON:
        said.append("With such a factor the guarantee is weak")
    if privacy.get("mode") == "central":
        said.append("It does not hold towards the server, which adds the noise after it has seen the updates")
    elif privacy.get("mode") == "distributed":
        said.append("It holds towards the server, too, which sees sums that already carry the noise")
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
