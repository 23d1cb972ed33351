"""DANCE as one specification."""

from __future__ import annotations

from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.methods.spec import MethodSpec, Traits
from fedtag.common.settings.registry import INTERFACE

SPEC = MethodSpec(
    name="dance",
    title="DANCE: a condensed core of each graph, with evidence from its texts that an auditor can check",
    source="DANCE, sections 4.1 to 4.5",
    interface=INTERFACE,
    settings=DanceConfig,
    traits=Traits(texts="may", condensed="own", keeps_evidence=True),
    defaults={"aggregation.average-decay": 0.95},
    records=averaged_records("the difference of backbone, selection and fusion weights after local training"),
    client="fedtag.client.methods.dance:METHOD",
    server="fedtag.server.methods.dance:METHOD",
)
