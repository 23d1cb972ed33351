"""The generator of missing neighbours as one specification."""

from __future__ import annotations

from fedtag.common.methods.records import Record
from fedtag.common.methods.spec import METHODS, Exclusion
from fedtag.common.models.spec import BACKBONES
from fedtag.common.parts.neighbour_generator.names import EXCHANGE, GENERATOR
from fedtag.common.parts.neighbour_generator.settings import NeighbourGeneratorConfig
from fedtag.common.parts.spec import PartSpec
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.run_settings import RunSettings


def _none_missing(settings: RunSettings) -> str:
    if not METHODS.get(settings.method).traits.pooled:
        return ""
    return f"method {settings.method} holds the whole graph, in which no neighbour is missing: {_out()}"


def _texts(settings: RunSettings) -> str:
    if METHODS.get(settings.method).traits.texts == "no":
        return ""
    return (
        f"method {settings.method} selects evidence among texts, and a generated neighbour has none: {_out()}"
    )


def _unread(settings: RunSettings) -> str:
    name = settings.model.backbone
    if not METHODS.get(settings.method).traits.backbone or BACKBONES.get(name).reads_neighbours:
        return ""
    return (
        f"model.backbone = {name} reads no neighbours, so generated ones would do nothing: {_out()}, or choose another "
        "backbone"
    )


def _out() -> str:
    return f"leave {SPEC.name} out of parts"


SPEC = PartSpec(
    name="neighbour-generator",
    title="Clients mend their graphs with neighbours of a generator that they train together before",
    source="FedSage+, Zhang et al., NeurIPS 2021, section 3.3",
    interface=INTERFACE,
    settings=NeighbourGeneratorConfig,
    renamed={
        "train.neighbour-generator": "parts = neighbour-generator",
        "train.generator-rounds": "neighbour-generator.rounds",
        "train.generator-hidden": "neighbour-generator.hidden",
        "train.generator-most": "neighbour-generator.most",
    },
    records=(
        Record(
            "update",
            "before, the difference of the generator of neighbours after training on the local graph",
            summed=True,
        ),
        Record(
            GENERATOR,
            "the trained generator of neighbours, a sum over clients; or its fingerprint",
            alone=True,
        ),
        Record(EXCHANGE, "the number of the exchange that trains the generator", form="value"),
    ),
    excluded=(
        Exclusion("methods whose client holds the whole graph", _none_missing),
        Exclusion("methods that read texts", _texts),
        Exclusion("backbones that read no neighbours", _unread),
    ),
    released_with=("train.inductive",),
    client="fedtag.client.parts.neighbour_generator.method:around",
    server="fedtag.server.parts.neighbour_generator:around",
)
