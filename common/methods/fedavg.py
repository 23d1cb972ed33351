"""FedAvg: clients train the received model, the server averages their updates."""

from __future__ import annotations

from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.spec import MethodSpec, PresetSpec, Traits
from fedtag.common.settings.registry import INTERFACE

SPEC = MethodSpec(
    name="fedavg",
    title="FedAvg: local training of the received model, weighted mean of the updates",
    source="McMahan et al., AISTATS 2017, Algorithm 1",
    interface=INTERFACE,
    traits=Traits(condensed="any", ordered=True, together=True),
    records=averaged_records("the difference between the locally trained and the received model"),
    client="fedtag.client.methods.fedavg:METHOD",
    server="fedtag.server.methods.fedavg:METHOD",
)

FEDPROX = PresetSpec(
    name="fedprox",
    title="FedProx: FedAvg whose clients are held near to the received model",
    source="Li et al., MLSys 2020, Equation 2",
    interface=INTERFACE,
    method=SPEC.name,
    values={"train.prox-mu": 0.01},
)
