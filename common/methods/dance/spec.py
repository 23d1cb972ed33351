"""DANCE as one specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.methods.spec import MethodSpec, Traits
from fedtag.common.settings.registry import INTERFACE


def words(settings: Mapping[str, Any]) -> Sequence[str]:
    """What noise on a core is, and what it is not."""
    scale = settings.get(f"{SPEC.name}.noise", 0.0)
    if not scale:
        return ()
    noise = f"Laplace noise of scale {scale:g} on the core's fused representations"
    return (f"{noise} tests robustness to noise; it is no guarantee",)


SPEC = MethodSpec(
    name="dance",
    title="DANCE: a condensed core of each graph, with evidence from its texts that an auditor can check",
    source="DANCE, sections 4.1 to 4.5",
    interface=INTERFACE,
    settings=DanceConfig,
    traits=Traits(texts="may", condensed="own", keeps_evidence=True, ordered=True),
    defaults={"aggregation.average-decay": 0.95},
    records=averaged_records("the difference of backbone, selection and fusion weights after local training"),
    words=words,
    client="fedtag.client.methods.dance:METHOD",
    server="fedtag.server.methods.dance:METHOD",
    evidence="fedtag.client.methods.dance.keeper:KEEPER",
)
