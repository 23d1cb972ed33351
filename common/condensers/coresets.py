"""Condensers that choose or merge real nodes."""

from __future__ import annotations

from fedtag.common.condensers.spec import CondenserSpec
from fedtag.common.settings.registry import INTERFACE

RANDOM = CondenserSpec(
    name="random",
    title="Training nodes drawn from each class, with the links between them",
    interface=INTERFACE,
    condensed="fedtag.client.condense.synthetic.random:condensed",
    copies=True,
)
HERDING = CondenserSpec(
    name="herding",
    title="Training nodes whose mean follows that of their class",
    source="Welling, ICML 2009",
    interface=INTERFACE,
    condensed="fedtag.client.condense.synthetic.herding:condensed",
    copies=True,
)
K_CENTER = CondenserSpec(
    name="k-center",
    title="Training nodes so that none of their class is far from a chosen one",
    source="Sener and Savarese, ICLR 2018",
    interface=INTERFACE,
    condensed="fedtag.client.condense.synthetic.k_center:condensed",
    copies=True,
)
COARSENING = CondenserSpec(
    name="coarsening",
    title="Linked nodes are merged until few are left",
    source="Loukas, JMLR 2019",
    interface=INTERFACE,
    condensed="fedtag.client.condense.synthetic.coarsening:condensed",
)
