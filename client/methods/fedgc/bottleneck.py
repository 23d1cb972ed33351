"""Node features that say what a classifier needs, and as little else as possible (FedGC, Eq. 4-10).

papers/fedgc.txt, section 3.2: ẑ = Â W₂ ReLU(W₁ x); μ = ẑ[:d], σ = softplus(ẑ[d:]), z = μ + σ ε. W₁ and W₂ minimise

    cross-entropy of φ(z) + γ KL(N(μ, σ²) ‖ N(0, I))

for a classifier φ that stays as it is, and so holds the features of all clients in one space. The divergence is summed
over dimensions and averaged over nodes. Three departures from the paper:

- x goes in, and z comes out, in units of x's root mean square. φ knows features of that size, and the prior has
  deviation one: of rows of a bag of words, whose entries are a tenth of that, nothing would be heard above the noise.
- The cross-entropy is that of φ(z) from φ(x), on every node, where the paper has the labels of training nodes. Fitted
  to these few, z of a training node says its label by heart: who asks a model of the condensed graph with z tells
  members from others almost surely, and other nodes are drawn into the classes of which the client has labels.
- The last step stands, where the paper takes the best on validation: the luckiest of many draws on a client's few
  validation nodes is no better on others, and would spoil these nodes for every later choice.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from fedtag.common.errors import DivergenceError
from fedtag.common.graph import Adjacency
from fedtag.common.numerics.optimisers import Adam

Classify = Callable[[Float[Tensor, "nodes dim"]], Float[Tensor, "nodes classes"]]


class Encoder(nn.Module):
    """x ↦ μ and the argument of σ's softplus; two linear maps without bias, then one propagation.

    Args:
        dimension: d.
        generator: of the initial values.
        dtype: of the weights.
    """

    def __init__(self, dimension: int, generator: torch.Generator, dtype: torch.dtype = torch.float32):
        super().__init__()
        device = generator.device
        self.first = nn.Parameter(torch.empty(dimension, dimension, dtype=dtype, device=device))
        self.second = nn.Parameter(torch.empty(2 * dimension, dimension, dtype=dtype, device=device))
        for weight in (self.first, self.second):
            nn.init.xavier_uniform_(weight, generator=generator)

    def forward(
        self, x: Float[Tensor, "nodes dim"], adjacency: Adjacency
    ) -> tuple[Float[Tensor, "nodes dim"], Float[Tensor, "nodes dim"]]:
        hidden = functional.relu(functional.linear(x, self.first))
        # Propagation commutes with the second map, which doubles what there is to propagate.
        mean, raw = functional.linear(adjacency.propagate(hidden), self.second).chunk(2, dim=1)
        return mean, raw


def divergence(mean: Float[Tensor, "nodes dim"], raw: Float[Tensor, "nodes dim"]) -> Float[Tensor, " nodes"]:
    """KL(N(μ, σ²) ‖ N(0, I)) = ½ Σ (μ² + σ² − 1 − ln σ²) of every node, σ = softplus(raw)."""
    return 0.5 * (mean.square() + functional.softplus(raw).square() - 1 - 2 * _log_softplus(raw)).sum(1)


def transformed(
    x: Float[Tensor, "nodes dim"],
    adjacency: Adjacency,
    classify: Classify,
    seen: Bool[Tensor, " nodes"],
    *,
    compression: float,
    epochs: int,
    rate: float,
    generator: torch.Generator,
) -> Float[Tensor, "nodes dim"]:
    """Train an encoder on a client's graph, and draw features by it. No label is read.

    Args:
        x: features.
        adjacency: Â, by which the classifier propagates too.
        classify: logits of the frozen classifier.
        seen: nodes whose features may be learned from.
        compression: γ, at least 0.
        epochs: steps of Adam, at least 1.
        rate: their size, above 0.
        generator: of initial values and draws, on the features' device.

    Returns:
        one draw for every node; the features themselves where no node may be learned from.

    Raises:
        DivergenceError: the loss is not finite.
    """
    if not bool(seen.any()):
        return x
    size = _size(x, seen)
    with torch.no_grad():
        opinion = classify(x)[seen].softmax(1)
    encoder = Encoder(x.shape[1], generator, x.dtype)
    weights = list(encoder.parameters())
    adam = Adam(weights, lr=rate, fused=True)

    def drawn() -> tuple[Tensor, Tensor, Tensor]:
        mean, raw = encoder(x / size, adjacency)
        noise = torch.empty_like(mean).normal_(generator=generator)
        return size * (mean + functional.softplus(raw) * noise), mean, raw

    for _ in range(epochs):
        z, mean, raw = drawn()
        distance = functional.cross_entropy(classify(z)[seen], opinion)
        loss = distance + compression * divergence(mean, raw)[seen].mean()
        if not bool(torch.isfinite(loss)):
            raise DivergenceError(
                f"the bottleneck diverged (the loss is {float(loss.detach())}): lower fedgc.bottleneck-rate, or scale "
                "the features down"
            )
        # Not backward(), which would leave derivatives in the classifier.
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient
        adam.step()
    with torch.no_grad():
        return drawn()[0]


def _size(x: Float[Tensor, "nodes dim"], seen: Bool[Tensor, " nodes"]) -> Float[Tensor, ""]:
    """The root mean square of the features of some nodes; 1 where all are zero."""
    size = x[seen].square().mean().sqrt()
    return torch.where(size == 0, torch.ones_like(size), size)


def _log_softplus(raw: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes dim"]:
    """ln ln(1 + exp(raw)); far below zero raw − exp(raw) / 2, where softplus itself is lost in rounding."""
    low = raw < -15
    above = functional.softplus(raw.masked_fill(low, 0.0)).log()
    return torch.where(low, raw - raw.clamp_max(-15).exp() / 2, above)
