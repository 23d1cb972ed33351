"""What a run's settings of aggregation and privacy mean, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtag.common.config.combinations import ROBUST_RULES
from fedtag.common.methods.spec import MethodSpec
from fedtag.common.wording.masked_sums import SPOILABLE, spoilable

WEIGHTS = {
    "samples": "A client's weight is its share of the training nodes (samples)",
    "uniform": "All clients that contribute weigh the same (uniform)",
    "distribution-aware": (
        "A client weighs more the better it scores and the nearer its predicted classes are to those of all clients "
        "(distribution-aware)"
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
    "group-median": (
        "Masked sums of groups of at least three clients, which all drew together, are opened one by one, and the "
        "median of every coordinate over groups is taken, assuming {groups} with a hostile client (group-median)"
    ),
    "group-trimmed-mean": (
        "Masked sums of groups of at least three clients, which all drew together, are opened one by one; of every "
        "coordinate the {groups} highest and lowest groups, or {trim:.0%} of them, are cut off before the mean "
        "(group-trimmed-mean)"
    ),
    "bulyan": "Updates are chosen by Krum and averaged around their median, assuming {hostile} hostile (bulyan)",
}
NORMALISATIONS = {
    "none": "Updates count as they are, however many local steps they took",
    "fednova": "Updates are divided by an effective number of local steps, lest longer work pull harder (FedNova)",
}
POOLED = "Nothing is combined: one client holds the whole graph"
APART = "Nothing is combined: every client keeps a model of its own"


def combination_sentences(
    settings: Mapping[str, Any], method: MethodSpec | None, lag: int | None
) -> list[str]:
    """How updates become one model, without full stops; settings that a run of an earlier version lacks are left out.

    Args:
        settings: by dotted key.
        method: of the run; None where it is not installed.
        lag: `weights_lag` of the summary.
    """
    if method is not None and not method.traits.sums:
        return [POOLED if method.traits.pooled else APART]
    rule, weights = settings.get("aggregation.rule"), settings.get("aggregation.weights")
    said = []
    if rule in RULES:
        trim, hostile = settings.get("aggregation.trim", 0.0), settings.get("aggregation.hostile", 0)
        said.append(RULES[rule].format(trim=trim, hostile=hostile, groups=max(hostile, 1)))
    if rule not in ROBUST_RULES and weights in WEIGHTS:
        said.append(WEIGHTS[weights])
        if weights == "distribution-aware":
            said.append(STATISTICS["previous" if lag else settings.get("aggregation.statistics", "current")])
        if (most := settings.get("aggregation.max-share")) is not None:
            said.append(
                f"No client of three or more weighs more than {most:g}; what is above goes to the others"
            )
    if (factor := settings.get("aggregation.norm-factor")) and not settings.get("privacy.secure-aggregation"):
        said.append(
            f"An update longer than {factor:g} times the round's median one is cut to the median's length"
        )
    said += [NORMALISATIONS[key] for key in [settings.get("aggregation.normalise")] if key in NORMALISATIONS]
    if spoilable(settings):
        said.append(SPOILABLE)
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


def privacy_sentences(settings: Mapping[str, Any], method: MethodSpec | None) -> list[str]:
    """What hides a client's part from the server, or that nothing does; without full stops.

    Args:
        settings: by dotted key.
        method: of the run; None where it is not installed.
    """
    said = []
    if method is not None and method.traits.releases == "nothing":
        said.append("No update leaves a client; its counts and scores do")
    elif "privacy.secure-aggregation" in settings:
        said += _masks(settings)
    mode = settings.get("privacy.dp.mode")
    own = "" if method is None else method.noises(settings)
    if own:
        said.append(own)
    elif mode == "off":
        said.append("No noise is added to updates: there is no differential privacy")
    elif mode is not None:
        said.append(_noise(settings, mode))
    return said if method is None else [*said, *method.words(settings)]


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
