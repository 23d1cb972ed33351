"""The links A' of a condensed graph, as a function of its features."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fedtag.common.randomness import seeded

INITIAL_LOGIT = -2.0


class LinkNetwork(nn.Module):
    """A'_ij = σ((f(x_i, x_j) + f(x_j, x_i)) / 2) with a perceptron f, and A'_ii = 0 (Jin et al., 2022, Eq. 8).

    The condensed graph is small, so that its links are a dense matrix. The first layer of f is split between the
    two nodes of a pair, W [x_i, x_j] = U x_i + V x_j, so that no pair of features is ever put together.

    Args:
        dimension: of the features.
        hidden: width of f.
    """

    def __init__(self, dimension: int, hidden: int) -> None:
        super().__init__()
        self.source = nn.Linear(dimension, hidden)
        self.target = nn.Linear(dimension, hidden, bias=False)
        self.output = nn.Linear(hidden, 1)
        # From σ(0) = ½ on, all nodes would be linked and told apart by nothing.
        nn.init.constant_(self.output.bias, INITIAL_LOGIT)

    def forward(self, x: Float[Tensor, "core dim"]) -> Float[Tensor, "core core"]:
        """A', symmetric with entries in [0, 1)."""
        pairs = self.source(x).unsqueeze(1) + self.target(x).unsqueeze(0)
        one_way = self.output(functional.relu(pairs)).squeeze(2)
        links = torch.sigmoid((one_way + one_way.T) / 2)
        return links * (1 - torch.eye(x.shape[0], device=x.device, dtype=x.dtype))


def link_network(dimension: int, hidden: int, generator: torch.Generator) -> LinkNetwork:
    """A fresh network on the CPU, whose values depend on the generator alone."""
    seed = int(torch.randint(2**62, (), generator=generator))
    return seeded(lambda: LinkNetwork(dimension, hidden), seed)


def normalised_links(links: Float[Tensor, "core core"]) -> Float[Tensor, "core core"]:
    """D^-1/2 (A' + I) D^-1/2, differentiable; dense, of a condensed graph."""
    looped = links + torch.eye(links.shape[0], device=links.device, dtype=links.dtype)
    scale = looped.sum(1).rsqrt()
    return scale.unsqueeze(1) * looped * scale.unsqueeze(0)


def thresholded(links: Float[Tensor, "core core"], threshold: float) -> Float[Tensor, "core core"]:
    """Links of a weight above δ, the others removed.

    Args:
        links: A', entries in [0, 1).
        threshold: δ in [0, 1).
    """
    return torch.where(links > threshold, links, 0)


def listed(
    links: Float[Tensor, "core core"],
) -> tuple[Int[Tensor, "2 edges"], Float[Tensor, " edges"]]:
    """The links that are not zero, with their weights."""
    edge_index = links.nonzero().T.contiguous()
    return edge_index, links[edge_index[0], edge_index[1]]
