"""The step of the architecture in first-order bi-level search (DA-DFGAS, Eq. 14)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fedtag.common.errors import DivergenceError
from fedtag.common.numerics.optimisers import Adam

BETAS = (0.5, 0.999)
WEIGHT_DECAY = 1e-3
"""Of Adam on the architecture, as in DARTS (Liu et al., 2019)."""

SHARPNESS = 3.0
"""Root mean square to which logits are scaled before the search looks at them, that of a trained classifier."""
LEAST_SIZE = 1e-6


def search_loss(
    logits: Float[Tensor, "nodes classes"], labels: Int[Tensor, " nodes"], searched: Bool[Tensor, " nodes"]
) -> Float[Tensor, ""]:
    """Cross-entropy of logits brought to one size, by which architectures are compared.

    Operations differ in the size of what they give (a maximum is larger than a mean, a sigmoid larger than a small
    input), and while logits are small, whatever makes them larger lowers the plain cross-entropy.

    Args:
        logits: of every node.
        labels: those of other nodes are not read.
        searched: the nodes of the loss, at least one.
    """
    size = logits.square().mean().sqrt().clamp_min(LEAST_SIZE)
    return functional.cross_entropy(logits[searched] * (SHARPNESS / size), labels[searched])


class ArchitectureSteps:
    """Adam on the architecture while the weights stand still; called before each step of the weights.

    First order: the weights at hand stand for those that they would be trained to. Between its steps the
    architecture needs no gradient, so that an optimiser of the weights leaves it alone.

    Args:
        weights: of the model, which stand still.
        architecture: α and β, changed in place.
        loss: on the nodes of the search, of the model as it stands.
        rate: step size.
    """

    def __init__(
        self,
        weights: list[nn.Parameter],
        architecture: list[nn.Parameter],
        loss: Callable[[], Tensor],
        rate: float,
    ) -> None:
        self.weights = weights
        self.architecture = architecture
        self.loss = loss
        self.stepper = Adam(architecture, lr=rate, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)
        self._turn(searching=False)

    def __call__(self) -> None:
        """One step.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        self._turn(searching=True)
        try:
            self.stepper.zero_grad(set_to_none=True)
            value = self.loss()
            if not bool(torch.isfinite(value)):
                raise DivergenceError(
                    f"the search diverged (the loss is {float(value.detach())}): lower train.learning-rate or "
                    "da_dfgas.architecture-rate"
                )
            value.backward()
            self.stepper.step()
        finally:
            self._turn(searching=False)

    def _turn(self, searching: bool) -> None:
        for parameter in self.weights:
            parameter.requires_grad_(not searching)
        for parameter in self.architecture:
            parameter.requires_grad_(searching)
