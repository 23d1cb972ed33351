"""The backbones that come with fedtag."""

from __future__ import annotations

from fedtag.common.models.backbones.settings import (
    AppnpConfig,
    ChebConfig,
    GprConfig,
    MonetConfig,
    SgcConfig,
)
from fedtag.common.models.spec import BackboneSpec
from fedtag.common.settings.registry import INTERFACE

GCN = BackboneSpec(
    name="gcn",
    title="Graph convolutions",
    source="Kipf and Welling, ICLR 2017",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.gcn:build",
    ordered=True,
)
SAGE = BackboneSpec(
    name="sage",
    title="GraphSAGE with the mean of the neighbours",
    source="Hamilton et al., NeurIPS 2017",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.sage:build",
    ordered=True,
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
    ordered=True,
)
MLP = BackboneSpec(
    name="mlp",
    title="Layers that ignore the graph",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.mlp:build",
    ordered=True,
    reads_neighbours=False,
    reads_weights=False,
)
GIN = BackboneSpec(
    name="gin",
    title="Graph isomorphism network: sums, which tell how many neighbours there are",
    source="Xu et al., ICLR 2019, Equation 4.1",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.gin:build",
    ordered=True,
    reads_weights=False,
    sums=True,
)
GATEDGCN = BackboneSpec(
    name="gatedgcn",
    title="Gated graph convolutions with residuals: each link has gates of its own",
    source="Bresson and Laurent, 2017",
    interface=INTERFACE,
    build="fedtag.common.models.backbones.gatedgcn:build",
    reads_weights=False,
    sums=True,
)
MONET = BackboneSpec(
    name="monet",
    title="Mixture model network: Gaussians over the degrees at both ends of a link",
    source="Monti et al., CVPR 2017, Equation 11",
    interface=INTERFACE,
    settings=MonetConfig,
    build="fedtag.common.models.backbones.monet:build",
    stacks=False,
)
APPNP = BackboneSpec(
    name="appnp",
    title="Predictions from features alone, propagated by personalised PageRank",
    source="Klicpera et al., ICLR 2019",
    interface=INTERFACE,
    settings=AppnpConfig,
    build="fedtag.common.models.backbones.appnp:build",
    ordered=True,
    representation="last hidden state of the MLP, propagated once",
)
GPR = BackboneSpec(
    name="gpr",
    title="Predictions from features alone, propagated by weights of each hop that are learned",
    source="GPR-GNN, Chien et al., ICLR 2021",
    interface=INTERFACE,
    settings=GprConfig,
    build="fedtag.common.models.backbones.gpr:build",
    ordered=True,
    representation="last hidden state of the MLP, propagated once",
)
CHEB = BackboneSpec(
    name="cheb",
    title="Chebyshev polynomials of the Laplacian",
    source="ChebNet, Defferrard et al., NeurIPS 2016",
    interface=INTERFACE,
    settings=ChebConfig,
    build="fedtag.common.models.backbones.cheb:build",
    ordered=True,
)
SGC = BackboneSpec(
    name="sgc",
    title="A linear map of features that were propagated before: convex, without hidden layers",
    source="Wu et al., ICML 2019",
    interface=INTERFACE,
    settings=SgcConfig,
    build="fedtag.common.models.backbones.sgc:build",
    ordered=True,
    representation="propagated features, as wide as the features",
)
