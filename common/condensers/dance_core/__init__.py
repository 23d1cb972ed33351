"""The core of a graph as a condenser: real nodes, chosen anew in every round by the received model."""

from fedtag.common.condensers.dance_core.settings import CoreConfig
from fedtag.common.condensers.spec import CondenserSpec
from fedtag.common.settings.registry import INTERFACE

SPEC = CondenserSpec(
    name="dance-core",
    title="DANCE's core: real nodes that the received model chooses anew in every round, linked anew",
    source="DANCE, Alg. 2 and 4",
    interface=INTERFACE,
    settings=CoreConfig,
    condensed="fedtag.client.condense.core.examples:core_examples",
    copies=True,
    every_round=True,
)
