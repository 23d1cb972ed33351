"""The generator of missing neighbours of FedSage+: how many a node lacks, and what they are like."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.sage import SAGE
from fedtag.common.randomness import derive_seed, seeded


class NeighbourGenerator(nn.Module):
    """NeurGen (Zhang et al., 2021, "Subgraph Federated Learning with Missing Neighbor Generation", section 4.1).

    z = GraphSAGE(G, X), two layers; dGen: ñ_v = softplus(θ_d z_v); fGen: x̃ = θ_f (z_v + ε), ε ~ N(0, I) drawn for
    each neighbour. Softplus stands for the paper's σ, because a rectifier that is off for all nodes has no gradient;
    fGen has none, because encoded texts have negative entries.

    Args:
        inputs: feature dimension d, of nodes and of generated neighbours.
        hidden: width h of the encoder.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.encoder = nn.ModuleList([SAGE(inputs, hidden), SAGE(hidden, hidden)])
        self.count = nn.Linear(hidden, 1)
        self.feature = nn.Linear(hidden, inputs)

    def encoded(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes hidden"]:
        """z: every node in its neighbourhood."""
        first, second = self.encoder
        hidden: Tensor = second(functional.relu(first(x, adjacency)), adjacency)
        return hidden

    def counts(self, z: Float[Tensor, "nodes hidden"]) -> Float[Tensor, " nodes"]:
        """ñ: how many neighbours each node lacks, above 0."""
        return functional.softplus(self.count(z).squeeze(1))

    def features(
        self,
        z: Float[Tensor, "nodes hidden"],
        owner: Int[Tensor, " generated"],
        generator: torch.Generator,
    ) -> Float[Tensor, "generated inputs"]:
        """x̃: a neighbour of each owner, which may be named several times.

        Args:
            z: of all nodes.
            owner: rows of z.
            generator: of the noise, on the device of z.
        """
        noise = torch.randn(len(owner), z.shape[1], dtype=z.dtype, device=z.device, generator=generator)
        features: Tensor = self.feature(z[owner] + noise)
        return features


def owners(counts: Float[Tensor, " nodes"], most: int) -> Int[Tensor, " generated"]:
    """The node of each neighbour that is generated, ascending: ñ_v rounded, up to `most` of them a node."""
    whole = counts.detach().round().clamp(0, most).long()
    return torch.repeat_interleave(torch.arange(len(counts), device=counts.device), whole)


def initial_neighbour_generator(dimension: int, hidden: int, seed: int) -> NeighbourGenerator:
    """The generator of a run with its initial values.

    Args:
        dimension: of the node features.
        hidden: width of the encoder.
        seed: of the run.
    """
    return seeded(
        lambda: NeighbourGenerator(dimension, hidden), derive_seed(seed, "initial neighbour generator")
    )
