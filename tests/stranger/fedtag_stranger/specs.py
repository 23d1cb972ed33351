"""What this package brings, as fedtag's entry points name it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedtag.common.condensers.spec import CondenserSpec
from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.records import Record
from fedtag.common.methods.spec import METHODS, Exclusion, MethodSpec, Traits
from fedtag.common.models.spec import BackboneSpec
from fedtag.common.parts.spec import PartSpec
from fedtag.common.settings.run_settings import RunSettings
from fedtag_stranger.settings import ClassBalanceConfig, FeatureNoiseConfig, TwiceLinearConfig

# Not fedtag's INTERFACE of today: the one for which this package was written.
INTERFACE = 1


def _texts(settings: RunSettings) -> str:
    if METHODS.get(settings.method).traits.texts == "no":
        return ""
    return f"method {settings.method} reads texts, on which {FEATURE_NOISE.name} lays no noise: leave it out of parts"


CLASS_BALANCE = MethodSpec(
    name="class-balance",
    title="FedAvg whose loss weighs classes by how rare they are among all clients' labels",
    source="King and Zeng, Political Analysis 2001, section 4.2",
    interface=INTERFACE,
    settings=ClassBalanceConfig,
    traits=Traits(condensed="any"),
    records=(
        *averaged_records(
            "the difference between the locally trained and the received model; before round 1, how many training "
            "nodes each class has"
        ),
        Record("balance", "the weights of the classes, which follow from the sum of all clients' counts"),
        Record(
            "label_weight",
            "the mean weight of the client's labels, which says how rare they are",
            form="value",
            schema=Annotated[float, Field(ge=0, le=1e30)],
            column=True,
        ),
    ),
    client="fedtag_stranger.balance_client:METHOD",
    server="fedtag_stranger.balance_server:METHOD",
    report="fedtag_stranger.balance_report:sections",
)
FEATURE_NOISE = PartSpec(
    name="feature-noise",
    title="Clients add noise to the features of their nodes",
    interface=INTERFACE,
    settings=FeatureNoiseConfig,
    excluded=(Exclusion("methods that read texts", _texts),),
    client="fedtag_stranger.feature_noise:around",
)
HARDEST = CondenserSpec(
    name="hardest",
    title="The training nodes that the received model has most wrong, anew in every round, without links",
    interface=INTERFACE,
    condensed="fedtag_stranger.hardest:examples",
    copies=True,
    every_round=True,
)
TWICE_LINEAR = BackboneSpec(
    name="twice-linear",
    title="Propagated features under two linear maps, without activations",
    source="SGC, Wu et al., ICML 2019",
    interface=INTERFACE,
    settings=TwiceLinearConfig,
    build="fedtag_stranger.twice_linear:build",
)
