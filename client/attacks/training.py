"""The models that an audit trains itself: a graph convolution of two layers, with or without a defence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional

from fedtag.client.attacks.signals import Posteriors
from fedtag.client.condense.synthetic.sampling import ClassSampler, whole_batch
from fedtag.common.graph import Graph
from fedtag.common.numerics.optimisers import Adam
from fedtag.common.randomness import derive_seed, torch_generator
from fedtag.common.synthetic.fitting import fitted
from fedtag.common.synthetic.gradients import Batch, Weights, initial_weights, logits


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Args:
        hidden: width.
        steps: full-batch steps of Adam.
        rate: their size.
        weight_decay: L2 penalty on the weights.
        penalty: λ of the defence Reg: λ Σ_c p_c², averaged over nodes, joins the loss, so that posteriors stay flat.
        epsilon: of the defence LDP: every feature gets Laplace noise of (largest − smallest feature) / ε, which
            is ε-local differential privacy of one number, and not of a node with all of its numbers. 0: no noise.
        pseudo_labels: the defence PL (Lee, 2013): a first model labels the nodes outside every split, and the
            second is trained on these and on the training nodes, all counting alike.
    """

    hidden: int = 64
    steps: int = 100
    rate: float = 0.01
    weight_decay: float = 5e-4
    penalty: float = 0.0
    epsilon: float = 0.0
    pseudo_labels: bool = False


def trained(graph: Graph, open_nodes: Bool[Tensor, " nodes"], recipe: Recipe, seed: int) -> Weights:
    """Weights of a model that learned the labels of the training nodes.

    Args:
        graph: with at least one training node; the labels of all others stay unread.
        open_nodes: those that may get a pseudo-label.
        recipe: how.
        seed: of the initial weights and of noise.
    """
    if recipe.epsilon:
        graph = graph.with_features(noised(graph.x, recipe.epsilon, seed))
    weights = _fitted(graph, recipe, derive_seed(seed, "first model"))
    if not recipe.pseudo_labels or not bool(open_nodes.any()):
        return weights
    guessed = answers(weights, graph).argmax(1)
    learned = replace(
        graph,
        y=torch.where(graph.train_mask, graph.y, guessed),
        train_mask=graph.train_mask | open_nodes,
    )
    return _fitted(learned, recipe, derive_seed(seed, "second model"))


def noised(x: Tensor, epsilon: float, seed: int) -> Tensor:
    """Features with Laplace noise, the same for the same seed."""
    scale = float(x.max() - x.min()) / epsilon
    generator = torch_generator(seed, "noise on features")
    uniform = torch.rand(x.shape, generator=generator, dtype=torch.float64) - 0.5
    noise = -uniform.sign() * torch.log1p(-2 * uniform.abs())
    return x + scale * noise.to(x)


def posteriors(weights: Weights, graph: Graph) -> Posteriors:
    """What a model says of every node of a graph, in double precision."""
    return softmax(answers(weights, graph))


def softmax(values: Tensor) -> Posteriors:
    """Posteriors from logits: in single precision many would be 1 exactly."""
    return values.detach().double().softmax(1).cpu().numpy()


@torch.no_grad()
def answers(weights: Weights, graph: Graph) -> Tensor:
    """The logits of every node."""
    every = torch.ones(graph.num_nodes, dtype=torch.bool, device=graph.x.device)
    return logits(weights, whole_batch(graph.x, graph.adjacency(), every, graph.y))


def fresh(graph: Graph, hidden: int, seed: int) -> Weights:
    """Initial weights for a graph's features and classes."""
    generator = torch_generator(seed, "initial weights")
    return initial_weights("gcn", graph.x.shape[1], hidden, graph.num_classes, generator, graph.x.device)


def _fitted(graph: Graph, recipe: Recipe, seed: int) -> Weights:
    # Budgets that never bind: only the training nodes' neighbourhoods are read, and these entirely.
    sampler = ClassSampler(graph, graph.num_nodes, graph.num_nodes, torch_generator(seed, "unused"))
    batch, weights = sampler.batch(), fresh(graph, recipe.hidden, seed)
    if not recipe.penalty:
        return fitted(weights, batch, recipe.steps, recipe.rate, recipe.weight_decay)
    return _flattened(weights, batch, recipe)


def _flattened(weights: Weights, batch: Batch, recipe: Recipe) -> Weights:
    """The same with a penalty on posteriors."""
    moving = [weight.clone().requires_grad_() for weight in weights]
    adam = Adam(moving, lr=recipe.rate, weight_decay=recipe.weight_decay, fused=True)
    for _ in range(recipe.steps):
        adam.zero_grad(set_to_none=True)
        passed = logits(tuple(moving), batch)
        flat = passed.softmax(1).square().sum(1).mean()
        (functional.cross_entropy(passed, batch.y) + recipe.penalty * flat).backward()
        adam.step()
    return tuple(weight.detach() for weight in moving)
