"""The generator of missing neighbours as one specification."""

from __future__ import annotations

from collections.abc import Sequence

from fedtag.common.methods.records import Record
from fedtag.common.methods.spec import METHODS
from fedtag.common.models.spec import BACKBONES
from fedtag.common.parts.neighbour_generator.names import GENERATOR
from fedtag.common.parts.neighbour_generator.settings import NeighbourGeneratorConfig
from fedtag.common.parts.spec import PartSpec
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.run_settings import RunSettings


def excluded(settings: RunSettings) -> Sequence[str]:
    """Where generated neighbours have no place."""
    traits = METHODS.get(settings.method).traits
    out = f"leave {SPEC.name} out of parts"
    if traits.pooled:
        return (f"method {settings.method} holds the whole graph, in which no neighbour is missing: {out}",)
    if traits.texts != "no":
        reason = "selects evidence among texts, and a generated neighbour has none"
        return (f"method {settings.method} {reason}: {out}",)
    if traits.backbone and not BACKBONES.get(settings.model.backbone).reads_neighbours:
        reason = "reads no neighbours, so generated ones would do nothing"
        return (f"model.backbone = {settings.model.backbone} {reason}: {out}, or choose another backbone",)
    return ()


SPEC = PartSpec(
    name="neighbour-generator",
    title="Clients mend their graphs with neighbours of a generator that they train together before",
    source="FedSage+, Zhang et al., NeurIPS 2021, section 3.3",
    interface=INTERFACE,
    settings=NeighbourGeneratorConfig,
    records=(Record(GENERATOR, "the trained generator of neighbours, a sum over clients"),),
    excluded=excluded,
    client="fedtag.client.parts.neighbour_generator.method:around",
    server="fedtag.server.parts.neighbour_generator:around",
)
