"""Dropout whose masks come from a generator."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int16
from torch import Tensor

DRAWS = 1 << 16


class MaskSource(torch.Generator):
    """Draws for the masks of dropout that follow from where they are used, and from no draws before them."""

    def draws(self, x: Float[Tensor, "*shape"]) -> Int16[Tensor, "*shape"]:
        """One for each entry, each of the 65,536 numbers as likely as any other."""
        raise NotImplementedError


def dropout(
    x: Float[Tensor, "*shape"], rate: float, generator: torch.Generator | None
) -> Float[Tensor, "*shape"]:
    """Inverted dropout whose mask comes from `generator`; without one, the identity (evaluation).

    The rate counts to 1/65,536: four entries share one draw of 64 bits, which costs a third of a Bernoulli draw each.
    """
    if generator is None or rate == 0:
        return x
    if isinstance(generator, MaskSource):
        bits = generator.draws(x)
    else:
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        bits = (
            draws.random_(-(1 << 63), None, generator=generator).view(torch.int16)[: x.numel()].view(x.shape)
        )
    dropped = round(rate * DRAWS)
    return x * (bits >= dropped - DRAWS // 2) * (DRAWS / (DRAWS - dropped))
