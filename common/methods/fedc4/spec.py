"""FedC4 as one specification."""

from __future__ import annotations

from collections.abc import Sequence

from fedtag.common.condensers.spec import CONDENSERS, NONE
from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.fedc4.names import NODES, PORTRAIT
from fedtag.common.methods.fedc4.settings import FedC4Config
from fedtag.common.methods.records import Record
from fedtag.common.methods.spec import MethodSpec, Traits
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.run_settings import RunSettings


def excluded(settings: RunSettings) -> Sequence[str]:
    """Condensers whose nodes cannot be shown to peers."""
    name = settings.condenser.name
    if name == NONE:
        return ()
    spec = CONDENSERS.get(name)
    shown = ", ".join(n for n, one in CONDENSERS.usable().items() if not one.copies and not one.every_round)
    remedy = ""
    if spec.every_round:
        remedy = f"takes other nodes in every round, and {SPEC.name} condenses once: choose one of {shown}"
    elif spec.copies and settings.own(FedC4Config).exchange != "off":
        off = f"{SPEC.name}.exchange = off"
        remedy = f"takes real nodes, which must not go to peers: choose one of {shown}, or set {off}"
    return (f"condenser.name = {name} {remedy}",) if remedy else ()


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
    excluded=excluded,
    client="fedtag.client.methods.fedc4:METHOD",
    server="fedtag.server.methods.fedc4:METHOD",
)
