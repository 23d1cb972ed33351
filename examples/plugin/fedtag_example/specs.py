"""What this package brings, as its entry points name it.

Whatever fedtag must know of an extension stands here; what computes is named by import strings, so that reading this
module imports no PyTorch, and `fedtag --help` stays instant with the package installed.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedtag.extension import (
    METHODS,
    BackboneSpec,
    CondenserSpec,
    Exclusion,
    MethodSpec,
    PartSpec,
    Record,
    RunSettings,
    TrackerSpec,
    Traits,
    averaged_records,
)
from fedtag_example.settings import ClassBalanceConfig, FeatureNoiseConfig, TwiceLinearConfig

# Not fedtag's INTERFACE of today: the one for which this package was written. Another fedtag refuses it by name.
INTERFACE = 1

CLASS_BALANCE = MethodSpec(
    name="class-balance",
    title="FedAvg whose loss weighs classes by how rare they are among all clients' labels",
    source="King and Zeng, Political Analysis 2001, section 4.2",
    interface=INTERFACE,
    settings=ClassBalanceConfig,
    # Clients may train on what any condenser makes of their graphs.
    traits=Traits(condensed="any"),
    # What is not declared does not leave a site, and the server refuses it.
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
            # The server checks what clients send against this type, with its bounds.
            schema=Annotated[float, Field(ge=0, le=1e30)],
            # A column of clients.jsonl and of the report.
            column=True,
        ),
    ),
    client="fedtag_example.class_balance.client:METHOD",
    server="fedtag_example.class_balance.server:METHOD",
    report="fedtag_example.class_balance.report:sections",
)


def _texts(settings: RunSettings) -> str:
    """What a person is told where noise on features would miss what the method reads; it asks traits, not names."""
    if METHODS.get(settings.method).traits.texts == "no":
        return ""
    return f"method {settings.method} reads texts, on which {FEATURE_NOISE.name} lays no noise: leave it out of parts"


FEATURE_NOISE = PartSpec(
    name="feature-noise",
    title="Clients add noise to the features of their nodes",
    interface=INTERFACE,
    settings=FeatureNoiseConfig,
    excluded=(Exclusion("methods that read texts", _texts),),
    client="fedtag_example.feature_noise:around",
)
HARDEST = CondenserSpec(
    name="hardest",
    title="The training nodes that the received model has most wrong, anew in every round, without links",
    interface=INTERFACE,
    condensed="fedtag_example.hardest:examples",
    copies=True,
    every_round=True,
)
TWICE_LINEAR = BackboneSpec(
    name="twice-linear",
    title="Propagated features under two linear maps, without activations",
    source="SGC, Wu et al., ICML 2019",
    interface=INTERFACE,
    settings=TwiceLinearConfig,
    build="fedtag_example.twice_linear:build",
)
SPREADSHEET = TrackerSpec(
    name="spreadsheet",
    title="A CSV file in the run directory, a line for each number of a round",
    interface=INTERFACE,
    opened="fedtag_example.spreadsheet:Spreadsheet",
)
