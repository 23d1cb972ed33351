"""Condensers that match gradients or trajectories of models on the real graph."""

from __future__ import annotations

from fedtag.common.condensers.spec import CondenserSpec
from fedtag.common.settings.registry import INTERFACE

GCOND = CondenserSpec(
    name="gcond",
    title="Gradients of fresh models on the condensed graph match those on the real one; links are learned",
    source="GCond, Jin et al., ICLR 2022",
    interface=INTERFACE,
    condensed="fedtag.client.condense.synthetic.gcond:condensed",
    validates=True,
)
GCOND_X = CondenserSpec(
    name="gcond-x",
    title="As gcond, without links",
    source="GCond, Jin et al., ICLR 2022",
    interface=INTERFACE,
    condensed="fedtag.client.condense.synthetic.gcond:without_links",
    validates=True,
)
DOSCOND = CondenserSpec(
    name="doscond",
    title="As gcond, with one point of matching a model",
    source="DosCond, Jin et al., KDD 2022",
    interface=INTERFACE,
    condensed="fedtag.client.condense.synthetic.doscond:condensed",
    validates=True,
)
SFGC = CondenserSpec(
    name="sfgc",
    title="A student on the condensed graph follows the trajectories of experts on the real one",
    source="SFGC, Zheng et al., NeurIPS 2023",
    interface=INTERFACE,
    condensed="fedtag.client.condense.synthetic.sfgc:condensed",
    validates=True,
)
