"""Models whose gradients are matched: a graph convolution of two layers, and its linear form.

Their gradients are written out, so that those of all classes come from one pass, and what is learned from them
(condensed features, links) takes one derivative and not two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

MatchingModel = Literal["gcn", "sgc"]
Weights = tuple[Tensor, ...]
"""Of `gcn` W1 [dim, hidden], b1 [hidden], W2 [hidden, classes], b2 [classes]; of `sgc` W [dim, classes], b."""

NODES_AT_ONCE = 32
"""Labelled nodes whose single gradients are held at a time."""
CLIP_ROUNDING, TINY = 1e-5, 1e-12


@dataclass(frozen=True, eq=False)
class Batch:
    """Labelled nodes, and all that two propagations carry to them.

    Args:
        propagated: Â X of every node that the last layer reads.
        second: rows of Â of the labelled nodes over those nodes, dense or sparse.
        y: their labels, in [0, C).
    """

    propagated: Float[Tensor, "read dim"]
    second: Tensor
    y: Int[Tensor, " labelled"]


def initial_weights(
    model: MatchingModel,
    dimension: int,
    hidden: int,
    classes: int,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
) -> Weights:
    """Fresh weights: matrices uniform as of Glorot and Bengio (2010), biases zero.

    Args:
        model: `gcn` or `sgc`.
        dimension: of node features.
        hidden: width of `gcn`.
        classes: C.
        generator: on the CPU, so that the values are the same on all devices.
        device: of the result.
    """
    shapes = [(dimension, hidden), (hidden, classes)] if model == "gcn" else [(dimension, classes)]
    weights: list[Tensor] = []
    for rows, columns in shapes:
        bound = (6 / (rows + columns)) ** 0.5
        matrix = (torch.rand(rows, columns, generator=generator) * 2 - 1) * bound
        weights += [matrix.to(device), torch.zeros(columns, device=device)]
    return tuple(weights)


def logits(weights: Weights, batch: Batch) -> Float[Tensor, "labelled classes"]:
    """Â relu(Â X W1 + b1) W2 + b2 of `gcn`, Â² X W + b of `sgc`, at the labelled nodes."""
    if len(weights) == 2:
        return batch.second @ batch.propagated @ weights[0] + weights[1]
    first, first_bias, second, second_bias = weights
    hidden = functional.relu(batch.propagated @ first + first_bias)
    return batch.second @ (hidden @ second) + second_bias


def mean_gradients(weights: Weights, batch: Batch) -> Weights:
    """The derivatives of the mean cross-entropy by all weights."""
    residual = _residual(weights, batch) / max(batch.y.numel(), 1)
    return tuple(gradient[0] for gradient in _gradients(weights, batch, residual.unsqueeze(1)))


def class_gradients(weights: Weights, batch: Batch) -> tuple[Float[Tensor, "classes ..."], ...]:
    """The derivatives of each class's mean cross-entropy by all weights; zero where a class has no node.

    Entry c of each result belongs to L_c = 1/n_c Σ_{v: y_v = c} CE(v). With residuals R_c = (softmax − one-hot) / n_c
    on the rows of class c and zero elsewhere, E_c = Sᵀ R_c, H = relu(P W1 + b1), P = Â X and S the second
    propagation: ∂W2 = Hᵀ E_c, ∂b2 = Σ R_c, ∂W1 = Pᵀ D_c, ∂b1 = Σ D_c where D_c = E_c W2ᵀ ⊙ 1[H > 0].

    Args:
        weights: θ.
        batch: what the derivatives are differentiable by, too.
    """
    classes = weights[-1].numel()
    members = functional.one_hot(batch.y, classes).to(weights[0].dtype)
    share = members / members.sum(0).clamp_min(1)
    return _gradients(weights, batch, share.unsqueeze(2) * _residual(weights, batch).unsqueeze(1))


def _residual(weights: Weights, batch: Batch) -> Float[Tensor, "labelled classes"]:
    passed = logits(weights, batch)
    return passed.softmax(1) - functional.one_hot(batch.y, passed.shape[1])


def _gradients(
    weights: Weights, batch: Batch, residuals: Float[Tensor, "labelled losses classes"]
) -> tuple[Tensor, ...]:
    """The derivatives of several losses, each given by its residuals at the labelled nodes."""
    labelled, losses, classes = residuals.shape
    flat = residuals.reshape(labelled, losses * classes)
    carried = (batch.second.transpose(0, 1) @ flat).reshape(-1, losses, classes)
    if len(weights) == 2:
        return _crossed(batch.propagated, carried), residuals.sum(0)
    first, first_bias, second, _ = weights
    hidden = functional.relu(batch.propagated @ first + first_bias)
    back = (carried @ second.T) * (hidden > 0).unsqueeze(1)
    return _crossed(batch.propagated, back), back.sum(0), _crossed(hidden, carried), residuals.sum(0)


def _crossed(
    left: Float[Tensor, "reached inner"], right: Float[Tensor, "reached losses outer"]
) -> Float[Tensor, "losses inner outer"]:
    """leftᵀ right of each loss; as one product, since einsum costs more than the product of small graphs."""
    return (left.T @ right.flatten(1)).unflatten(1, right.shape[1:]).transpose(0, 1)


def node_gradients(weights: Weights, batch: Batch) -> tuple[Float[Tensor, "labelled ..."], ...]:
    """The derivatives of each labelled node's own cross-entropy by all weights."""
    return _gradients(weights, batch, torch.diag_embed(_residual(weights, batch).T).permute(1, 2, 0))


def node_norms(weights: Weights, batch: Batch) -> Float[Tensor, " labelled"]:
    """The L2 norm of each of these, over all weights together."""
    norms = [
        torch.cat([gradient.flatten(1) for gradient in node_gradients(weights, part)], 1).double().norm(dim=1)
        for part in parts_of(batch)
    ]
    return torch.cat(norms).to(weights[0].dtype) if norms else weights[0].new_zeros(0)


def clipped_class_sums(
    weights: Weights, batch: Batch, bound: float
) -> tuple[Float[Tensor, "classes ..."], ...]:
    """Σ_{v: y_v = c} g_v · min(1, bound / ‖g_v‖) of every class, g_v being the derivatives of v's own cross-entropy.

    Without any one node the sums are, over all classes and weights together, at most `bound` away in L2: a node's label
    and loss are in its own term alone. Its features are in those of its neighbours as well.

    Args:
        weights: θ.
        batch: labelled nodes, with all of their neighbours: draws would depend on who is labelled.
        bound: above 0.
    """
    members = functional.one_hot(batch.y, weights[-1].numel()).to(weights[0].dtype)
    # Rounding must not lift a node above its bound.
    scale = (bound * (1 - CLIP_ROUNDING) / node_norms(weights, batch).clamp_min(TINY)).clamp_max(1)
    residual = scale.unsqueeze(1) * _residual(weights, batch)
    return _gradients(weights, batch, members.unsqueeze(2) * residual.unsqueeze(1))


def projections(
    weights: Weights, batch: Batch, directions: Sequence[Float[Tensor, "classes ..."]]
) -> Float[Tensor, " labelled"]:
    """⟨D_{y_v}, g_v⟩ of every labelled node: how its cross-entropy changes along what is given for its class.

    Args:
        weights: θ.
        batch: nodes in question, with labels.
        directions: D, of the form of `class_gradients`.
    """
    moved = [
        _moved_logits(weights, batch, [one[label] for one in directions])
        for label in range(weights[-1].numel())
    ]
    own = torch.stack(moved)[batch.y, torch.arange(batch.y.numel(), device=batch.y.device)]
    return (_residual(weights, batch) * own).sum(1)


def _moved_logits(
    weights: Weights, batch: Batch, direction: Sequence[Tensor]
) -> Float[Tensor, "labelled classes"]:
    """The derivative of the logits along a direction of the weights."""
    if len(weights) == 2:
        return batch.second @ batch.propagated @ direction[0] + direction[1]
    first, first_bias, second, _ = weights
    before = batch.propagated @ first + first_bias
    turned = (batch.propagated @ direction[0] + direction[1]) * (before > 0)
    return batch.second @ (turned @ second + functional.relu(before) @ direction[2]) + direction[3]


def parts_of(batch: Batch) -> Iterator[Batch]:
    """The labelled nodes in parts, each with those nodes alone that it reads."""
    for rows in torch.arange(batch.y.numel(), device=batch.y.device).split(NODES_AT_ONCE):
        second = batch.second.index_select(0, rows)
        dense = second.to_dense() if second.is_sparse else second
        read = (dense != 0).any(0)
        yield Batch(batch.propagated[read], dense[:, read], batch.y[rows])
