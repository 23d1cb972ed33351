"""Which of its condensed nodes a client shows to a peer (FedC4, Eq. 13)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity

from fedtag.client.methods.fedc4.collaboration.embedding import Scale


def selected(
    hidden: Float[Tensor, "core hidden"], peer: Float[Tensor, " hidden"], scale: Scale, threshold: float
) -> Int[Tensor, " chosen"]:
    """Nodes with cosine(h_i, μ_c') > τ after both were put on the common scale; in order.

    On raw embeddings, which are close to one another, nearly every cosine would pass; what is common to all
    clients is taken off by the scale.

    Args:
        hidden: h of the own condensed nodes.
        peer: μ_c' of the peer.
        scale: of all whose portraits are known.
        threshold: τ in [-1, 1].
    """
    likeness = cosine_similarity(scale.embedded(hidden), scale.embedded(peer.unsqueeze(0)), dim=1)
    return torch.nonzero(likeness > threshold).squeeze(1)
