"""What noise for single training nodes goes with, and what it protects, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtag.common.errors import ProtocolError
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.spec import Exclusion
from fedtag.common.secure.shares import threshold
from fedtag.common.settings.run_settings import RunSettings

UNIT = "one training node's label and gradient"
WHAT = "The condensed graph, and all else that is made of the sums"
LIMITS = (
    (
        "It covers what a training node adds by its label and its loss: its clipped gradient, and its place in the "
        "counts of classes. It does not cover its features, which are in the rows that its neighbours' gradients are "
        "made of, in sums of features over all nodes of a site, and in sums that sites exchange; for these no "
        "node-level guarantee is claimed, and no edge-level one"
    ),
    (
        "How many training nodes a site has, and scores on validation and test nodes, are outside of it; these scores "
        "are of models of the noisy graph, and choose no round: the newest one is released"
    ),
)


def _is_off(settings: RunSettings) -> bool:
    return settings.own(FedGCConfig).dp_mode == "off"


def _without_teacher(settings: RunSettings) -> str:
    own = settings.own(FedGCConfig)
    if _is_off(settings) or (own.learn_from == "training" and not own.bottleneck):
        return ""
    return (
        f"fedgc.dp-mode = {own.dp_mode}: a self-trained model is made of training nodes without noise, and labels and "
        "features made by it would carry them into every gradient: set fedgc.learn-from = training, and "
        "fedgc.bottleneck = false"
    )


def _without_fitting(settings: RunSettings) -> str:
    own = settings.own(FedGCConfig)
    if _is_off(settings) or not own.fine_tune_steps:
        return ""
    return (
        f"fedgc.dp-mode = {own.dp_mode}: scores of models that are fitted to training nodes would tell of these "
        "without noise: set fedgc.fine-tune-steps = 0"
    )


def _where(settings: RunSettings) -> str:
    own, masked = settings.own(FedGCConfig), settings.privacy.secure_aggregation
    if _is_off(settings) or (own.dp_mode == "distributed") == masked:
        return ""
    if masked:
        return (
            "fedgc.dp-mode = local puts all of the noise on what each client sends, which masks hide anyway: set "
            "fedgc.dp-mode = distributed, or privacy.secure-aggregation = false"
        )
    return (
        "fedgc.dp-mode = distributed protects sums that masks hide the parts of: set privacy.secure-aggregation = "
        "true, or fedgc.dp-mode = local"
    )


def _alike(settings: RunSettings) -> str:
    if settings.own(FedGCConfig).dp_mode != "distributed" or settings.aggregation.weights == "uniform":
        return ""
    return (
        f"aggregation.weights = {settings.aggregation.weights} would weigh members' parts of the noise differently: "
        "set aggregation.weights = uniform with fedgc.dp-mode = distributed"
    )


def _enough(settings: RunSettings) -> str:
    own, colluders = settings.own(FedGCConfig), settings.privacy.dp.colluders
    if own.dp_mode != "distributed":
        return ""
    try:
        fewest = threshold(settings.clients)
    except ProtocolError:
        return ""
    if colluders < fewest:
        return ""
    return (
        f"privacy.dp.colluders = {colluders} leaves no honest noise in a sum of {fewest} clients: lower it, or add "
        "clients"
    )


EXCLUDED = (
    Exclusion("noise for nodes with a self-trained model", _without_teacher),
    Exclusion("noise for nodes with fine-tuning", _without_fitting),
    Exclusion("noise for nodes in another place than sums are seen", _where),
    Exclusion("distributed noise with other weights than uniform", _alike),
    Exclusion("distributed noise of too few honest clients", _enough),
)


def noise_sentence(settings: Mapping[str, Any]) -> str:
    """By what noise of its own a run is differentially private; empty if by none.

    Args:
        settings: by dotted key.
    """
    mode = settings.get("fedgc.dp-mode", "off")
    if mode == "off":
        return ""
    clip, noise = settings.get("fedgc.dp-clip", 1.0), settings.get("fedgc.dp-noise", 1.0)
    who = "each client adds all of it" if mode == "local" else "each client adds a part of it under its mask"
    return (
        f"Gradients of training nodes are clipped to an L2 norm of {clip:g}, one by one; Gaussian noise with standard "
        f"deviation {noise * clip:g} is on their sums, with {noise:g} on counts of classes: {who} (differential "
        "privacy for single training nodes)"
    )
