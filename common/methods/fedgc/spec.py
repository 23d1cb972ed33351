"""FedGC as one specification."""

from __future__ import annotations

from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.fedgc.names import MATCHED, MOMENTS, TEACHER, THETA
from fedtag.common.methods.fedgc.noise import EXCLUDED, noise_sentence
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.fedgc.stages import teaching_rounds
from fedtag.common.methods.records import Record
from fedtag.common.methods.spec import Exclusion, MethodSpec, Traits
from fedtag.common.numerics.robust_rules import GROUP_RULES
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.run_settings import RunSettings


def _quotients(settings: RunSettings) -> str:
    aggregation = settings.aggregation
    plain = aggregation.rule in ("mean", *GROUP_RULES) and aggregation.normalise == "none"
    if plain and aggregation.weights in ("samples", "uniform"):
        return ""
    return (
        f"{SPEC.name} sums gradients over the nodes of a class: set aggregation.rule = mean, normalise = none, and "
        "weights = samples or uniform"
    )


def _average(settings: RunSettings) -> str:
    if settings.aggregation.average_decay <= 0:
        return ""
    return (
        f"{SPEC.name} has no model that moves from round to round, which aggregation.average-decay could average: set "
        "it to 0"
    )


def _noise(settings: RunSettings) -> str:
    if settings.privacy.dp.mode == "off":
        return ""
    return (
        f"privacy.dp.mode bounds what an institution adds to a model, and {SPEC.name} sums gradients over nodes: set "
        f"privacy.dp.mode = off, and {SPEC.name}.dp-mode for noise that protects single training nodes"
    )


def _transformed(settings: RunSettings) -> str:
    own = settings.own(FedGCConfig)
    if own.learn_from != "pseudo" or not own.bottleneck:
        return ""
    return (
        f"{SPEC.name}.bottleneck makes features by the self-trained model, which {SPEC.name}.learn-from = pseudo keeps "
        f"out of the release: set {SPEC.name}.learn-from = both or training, or {SPEC.name}.bottleneck = false"
    )


def _no_round_left(settings: RunSettings) -> str:
    own = settings.own(FedGCConfig)
    if teaching_rounds(own) < settings.rounds:
        return ""
    return (
        f"{SPEC.name}.self-training-rounds = {own.self_training_rounds} leave none of the {settings.rounds} rounds for "
        f"condensation: raise rounds, or set {SPEC.name}.self-training-rounds lower"
    )


def _batches(settings: RunSettings) -> str:
    own, size = settings.own(FedGCConfig), settings.train.batch_size
    if not size or (own.dp_mode == "off" and not own.bottleneck):
        return ""
    if own.dp_mode != "off":
        return (
            f"train.batch-size = {size}: the guarantee of {SPEC.name}.dp-mode = {own.dp_mode} is for one pass over the "
            "whole graph, in which each node's part is bounded: set train.batch-size = 0, or "
            f"{SPEC.name}.dp-mode = off"
        )
    return (
        f"train.batch-size = {size}: {SPEC.name}.bottleneck learns features of the whole graph at once: set "
        f"{SPEC.name}.bottleneck = false, or train.batch-size = 0"
    )


def _class_weights(settings: RunSettings) -> str:
    if settings.train.class_weights == "none":
        return ""
    return (
        f"train.class-weights = {settings.train.class_weights} would weigh labels in self-training alone, while "
        f"{SPEC.name} matches the gradients of each class by itself: set it to none"
    )


SPEC = MethodSpec(
    name="fedgc",
    title="FedGC: the server learns one condensed graph from the clients' gradients by class",
    source="FedGC, Equations 3 to 10",
    interface=INTERFACE,
    settings=FedGCConfig,
    traits=Traits(condensed="own", releases="graph"),
    records=(
        *averaged_records(
            "in self-training, the difference of the model after local training; then sums over the labelled nodes "
            "of a class: gradients, counts, at the beginning features and their squares"
        ),
        Record(TEACHER, "the self-trained model, or its fingerprint", alone=True),
        Record(THETA, "the seed of a matching model", form="value"),
        Record(MATCHED, "which classes have enough labelled nodes in all", form="value"),
        Record(MOMENTS, "whether sums of features are asked for", form="value"),
    ),
    excluded=(
        Exclusion("robust rules, fednova and distribution-aware weights", _quotients),
        Exclusion("an average of models", _average),
        Exclusion("differential privacy of institutions", _noise),
        *EXCLUDED,
        Exclusion("a bottleneck without the self-trained model", _transformed),
        Exclusion("batches under noise or with a bottleneck", _batches),
        Exclusion("weights of classes", _class_weights),
        Exclusion("no round after self-training", _no_round_left),
    ),
    renamed={"fedgc.self-training": "fedgc.learn-from"},
    noises=noise_sentence,
    released_with=("train.inductive", "privacy.secure-aggregation", "aggregation.weights"),
    client="fedtag.client.methods.fedgc:METHOD",
    server="fedtag.server.methods.fedgc.method:METHOD",
    artefact="fedtag.server.methods.fedgc.artefact:ARTEFACT",
    report="fedtag.server.methods.fedgc.report:sections",
)
