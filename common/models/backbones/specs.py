"""The backbones that come with fedtag."""

from __future__ import annotations

from fedtag.common.models.spec import BackboneSpec
from fedtag.common.settings.registry import INTERFACE

GCN = BackboneSpec(
    name="gcn",
    title="Graph convolutions",
    source="Kipf and Welling, ICLR 2017",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.gcn:build",
)
SAGE = BackboneSpec(
    name="sage",
    title="GraphSAGE with the mean of the neighbours",
    source="Hamilton et al., NeurIPS 2017",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.sage:build",
    reads_weights=False,
)
GAT = BackboneSpec(
    name="gat",
    title="Graph attention, one head",
    source="Velickovic et al., ICLR 2018",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.gat:build",
    reads_weights=False,
)
TAGCN = BackboneSpec(
    name="tagcn",
    title="Topology-adaptive graph convolutions of two hops, for graphs whose neighbours differ",
    source="Du et al., 2017",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.tagcn:build",
)
MLP = BackboneSpec(
    name="mlp",
    title="Layers that ignore the graph",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.mlp:build",
    reads_neighbours=False,
    reads_weights=False,
)
