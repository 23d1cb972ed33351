"""FedC4 as one specification."""

from __future__ import annotations

from fedtag.common.condensers.spec import CONDENSERS, NONE
from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.fedc4.names import NODES, PORTRAIT
from fedtag.common.methods.fedc4.settings import FedC4Config
from fedtag.common.methods.records import Record
from fedtag.common.methods.spec import Exclusion, MethodSpec, Traits
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.run_settings import RunSettings


def shown_condensers() -> str:
    """Those whose nodes may go to peers, as a list for sentences."""
    found = CONDENSERS.usable().values()
    return ", ".join(one.name for one in found if not one.copies and not one.every_round)


def _new_every_round(settings: RunSettings) -> str:
    name = settings.condenser.name
    if name == NONE or not CONDENSERS.get(name).every_round:
        return ""
    return (
        f"condenser.name = {name} takes other nodes in every round, and {SPEC.name} condenses once: choose one of "
        f"{shown_condensers()}"
    )


def _real_nodes(settings: RunSettings) -> str:
    name, spoken = settings.condenser.name, settings.own(FedC4Config).exchange
    if spoken == "off" or name == NONE or not CONDENSERS.get(name).copies or CONDENSERS.get(name).every_round:
        return ""
    return (
        f"condenser.name = {name} takes real nodes, which must not go to peers: choose one of {shown_condensers()}, "
        f"or set {SPEC.name}.exchange = off"
    )


SPEC = MethodSpec(
    name="fedc4",
    title="FedC4: clients condense their graphs and show one another some of the condensed nodes",
    source="FedC4, Equations 8 to 17",
    interface=INTERFACE,
    settings=FedC4Config,
    traits=Traits(condensed="any"),
    defaults={"condenser.name": "gcond-x"},
    records=(
        *averaged_records("the difference of the model after training on the rebuilt graph"),
        Record(
            PORTRAIT,
            "mean of the embeddings of condensed nodes, and their norms or projections",
            form="letter",
        ),
        Record(NODES, "features and labels of condensed nodes", form="letter"),
    ),
    excluded=(
        Exclusion("condensers that work anew in every round", _new_every_round),
        Exclusion("condensers that take real nodes, while peers are shown any", _real_nodes),
    ),
    client="fedtag.client.methods.fedc4:METHOD",
    server="fedtag.server.methods.fedc4.method:METHOD",
    report="fedtag.server.methods.fedc4.report:sections",
)
