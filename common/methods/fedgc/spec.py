"""FedGC as one specification."""

from __future__ import annotations

from collections.abc import Sequence

from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.fedgc.names import MATCHED, MOMENTS, TEACHER, THETA
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.fedgc.stages import teaching_rounds
from fedtag.common.methods.records import Record
from fedtag.common.methods.spec import MethodSpec, Traits
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.run_settings import RunSettings


def excluded(settings: RunSettings) -> Sequence[str]:
    """What does not go with sums over classes, of which the server takes quotients."""
    aggregation, own, wrong = settings.aggregation, settings.own(FedGCConfig), []
    plain = aggregation.rule == "mean" and aggregation.normalise == "none"
    if not plain or aggregation.weights not in ("samples", "uniform"):
        wrong.append(
            f"{SPEC.name} sums gradients over the nodes of a class: set aggregation.rule = mean, normalise = none, "
            "and weights = samples or uniform"
        )
    if aggregation.average_decay > 0:
        wrong.append(
            f"{SPEC.name} has no model that moves from round to round, which aggregation.average-decay could average: "
            "set it to 0"
        )
    if settings.privacy.dp.mode != "off":
        wrong.append(
            f"differential privacy would put noise on the counts by which {SPEC.name} divides: set "
            "privacy.dp.mode = off"
        )
    if teaching_rounds(own) >= settings.rounds:
        wrong.append(
            f"{SPEC.name}.self-training-rounds = {own.self_training_rounds} leave none of the {settings.rounds} "
            f"rounds for condensation: raise rounds, or set {SPEC.name}.self-training-rounds lower"
        )
    return wrong


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
        Record(TEACHER, "the self-trained model, or its fingerprint"),
        Record(THETA, "the seed of a matching model", form="value"),
        Record(MATCHED, "which classes have enough labelled nodes in all", form="value"),
        Record(MOMENTS, "whether sums of features are asked for", form="value"),
    ),
    excluded=excluded,
    released_with=("train.inductive",),
    client="fedtag.client.methods.fedgc:METHOD",
    server="fedtag.server.methods.fedgc:METHOD",
)
