"""What a client tells of its classes: sums of gradients and of features over labelled nodes (FedGC, Eq. 3)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.common.synthetic.gradients import Batch, Weights, class_gradients


def gradient_sums(
    weights: Weights, batch: Batch, counts: Int[Tensor, " classes"]
) -> tuple[Float[Tensor, "classes ..."], ...]:
    """n(c) times the derivatives of each class's mean cross-entropy by all weights.

    Args:
        weights: θ.
        batch: labelled nodes with all that two propagations carry to them.
        counts: n(c); a class with 0 has a sum of 0, whatever the batch holds of it.
    """
    return tuple(
        gradient * counts.view(-1, *[1] * (gradient.dim() - 1)).to(gradient.dtype)
        for gradient in class_gradients(weights, batch)
    )


def told_counts(
    labelled: Int[Tensor, " classes"], least: int, enough: Bool[Tensor, " classes"] | None
) -> Int[Tensor, " classes"]:
    """The labelled nodes of those classes of which a sum may be told; 0 for the others.

    The gradient of a single node is as good as that node. Where the server sees each client's sum, `least` nodes of
    the client must stand behind it; where it sees the sum over all clients only, that many of theirs.

    Args:
        labelled: n(c) of the client.
        least: at least 1.
        enough: under secure summation, which classes have that many nodes in all; None if each sum is seen, or
            nothing is known yet.
    """
    counted = labelled >= least if enough is None else enough
    return torch.where(counted, labelled, 0)


def feature_sums(
    x: Float[Tensor, "nodes dim"], seen: Bool[Tensor, " nodes"], least: int
) -> tuple[Int[Tensor, 1], Float[Tensor, " dim"], Float[Tensor, " dim"]]:
    """The number of nodes, Σ x and Σ x² over all that training may see: the same whoever of them has a label.

    Args:
        x: features of all nodes.
        seen: those that training may see.
        least: with fewer nodes nothing is told.
    """
    rows = x[seen].double()
    if rows.shape[0] < least:
        rows = rows[:0]
    count = torch.tensor([rows.shape[0]], device=x.device)
    return count, rows.sum(0).to(x.dtype), rows.square().sum(0).to(x.dtype)
