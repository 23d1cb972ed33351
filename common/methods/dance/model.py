"""The trainable parts of DANCE: one backbone, the selection of evidence, the fusion of views, three heads.

Departures from the paper, all of which keep its equations: queries and keys read rows of unit root mean
square, so that scores are of order 1 from the first round; the fusion starts close to a plain sum of its
views; the final scale of x is 1 / √d, so that x has the length of a text vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.models.assembly import backbone
from fedtag.common.models.classifier import NodeClassifier, representation_width
from fedtag.common.randomness import derive_seed, seeded
from fedtag.common.settings.run_settings import RunSettings

HOPS = 3


@dataclass(frozen=True)
class Views:
    """What the fusion reads for each row.

    `graph` is the hidden state g, `text` the evidence t', `bypass` features that reach the prediction without
    passing the selection (propagated and whole-document vectors), `views` of them.
    """

    graph: Float[Tensor, "rows hidden"]
    text: Float[Tensor, "rows dim"]
    bypass: Float[Tensor, "rows views dim"]


def unit_mean_square(x: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
    """Rows scaled to a root mean square of 1; zero rows stay zero."""
    return functional.normalize(x, dim=1) * math.sqrt(x.shape[1])


class ViewMap(nn.Module):
    """Σ_k (s_k I + W_k) view_k: a scaled sum of views and a trained linear map of all of them.

    Args:
        dimension: d of each view.
        scales: s_k at the start, one a view.
        rank: of [W_1 … W_k]; 0 for full matrices.
    """

    def __init__(self, dimension: int, scales: Sequence[float], rank: int) -> None:
        super().__init__()
        width = len(scales) * dimension
        self.scale = nn.Parameter(torch.tensor(scales))
        self.map = (
            nn.Sequential(nn.Linear(width, rank, bias=False), nn.Linear(rank, dimension, bias=False))
            if rank
            else nn.Linear(width, dimension, bias=False)
        )
        with torch.no_grad():
            list(self.map.parameters())[-1].mul_(0.3)

    def forward(self, views: Float[Tensor, "rows views dim"]) -> Float[Tensor, "rows dim"]:
        return (views * self.scale.unsqueeze(1)).sum(1) + self.map(views.flatten(1))


class DanceModel(nn.Module):
    """All parameters that DANCE trains and uploads.

    Args:
        backbone: reads d-dimensional rows, on the original graph (raw t) and on the core (fused x).
        dimension: d of the text vectors.
        hidden: h of the backbone's representation.
        classes: number of classes C.
        bypass_scales: for each vector that joins the fusion beside the evidence, its scale at the start.
        rank: of the trained maps of text and bypass views; 0 for full matrices.
    """

    def __init__(
        self,
        backbone: NodeClassifier,
        dimension: int,
        hidden: int,
        classes: int,
        bypass_scales: Sequence[float],
        rank: int = 0,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.neighbour_query = nn.Linear(hidden, hidden, bias=False)
        self.neighbour_key = nn.Linear(dimension, hidden, bias=False)
        self.chunk_query = nn.Linear(hidden, dimension, bias=False)
        self.hop_logits = nn.Parameter(torch.zeros(HOPS))
        self.graph_projection = nn.Linear(hidden, dimension, bias=False)
        self.text_map = ViewMap(dimension, (1.0,), rank)
        self.gate = nn.Linear(hidden + dimension, 1)
        self.bypass_map = ViewMap(dimension, bypass_scales, rank) if bypass_scales else None
        self.norm = nn.LayerNorm(dimension)
        self.fused_head = nn.Linear(dimension, classes)
        self.graph_head = nn.Linear(hidden, classes)
        self.text_head = nn.Linear(dimension, classes)
        with torch.no_grad():
            self.norm.weight.fill_(1 / math.sqrt(dimension))
            self.graph_projection.weight.mul_(0.1)

    def neighbour_queries(self, g: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows hidden"]:
        """W_q g of Eq. 5."""
        return self.neighbour_query(unit_mean_square(g))

    def neighbour_keys(self, t: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes hidden"]:
        """W_k t of Eq. 5."""
        return self.neighbour_key(unit_mean_square(t))

    def chunk_queries(self, g: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows dim"]:
        """W_s g of Eq. 8, for keys of unit length: √d makes up for what Eq. 8 divides by."""
        return self.chunk_query(unit_mean_square(g)) * math.sqrt(self.chunk_query.out_features)

    def fuse(self, views: Views) -> Float[Tensor, "rows dim"]:
        """x = LN(W_g g + a W_t t' + W_b bypass) with a = σ(w · [g ‖ t']), Eq. 10 with bypass views."""
        share = torch.sigmoid(self.gate(torch.cat([views.graph, views.text], dim=1)))
        fused = self.graph_projection(views.graph) + share * self.text_map(views.text.unsqueeze(1))
        if self.bypass_map is not None:
            fused = fused + self.bypass_map(views.bypass)
        return self.norm(fused)


def bypass_scales(hops: int) -> tuple[float, ...]:
    """Initial scales of v, Âv, …, Â^p v: they grow with the hops p from 0 to 1, since the widest propagation
    carries most at the start; what starts at 0 is learned.
    """
    return tuple(hop / hops for hop in range(hops + 1)) if hops else ()


def initial_dance_model(settings: RunSettings, dimension: int, classes: int) -> DanceModel:
    """The run's model with its initial values, the same on every machine for the same seed."""
    model, own = settings.model, settings.own(DanceConfig)

    def build() -> DanceModel:
        inner = backbone(model, dimension, classes, settings.tables.get(model.backbone), own.skip)
        width = representation_width(inner, dimension)
        return DanceModel(inner, dimension, width, classes, bypass_scales(own.propagated), own.rank)

    return seeded(build, derive_seed(settings.seed, "initial model"))
