"""Nodes of no split, and the half of them that a membership audit keeps for its attacker."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from fedtag.common.graph import Graph
from fedtag.common.randomness import torch_generator


def outside_splits(graph: Graph) -> Bool[Tensor, " nodes"]:
    """The nodes that neither train, validate nor test."""
    return ~(graph.train_mask | graph.val_mask | graph.test_mask)


def shadow_half(outside: Bool[Tensor, " nodes"], seed: int, site: str) -> Bool[Tensor, " nodes"]:
    """Half of a site's nodes outside every split, rounded down: those that an attacker is taken to know.

    It depends on nothing but the arguments: a method that learns from nodes outside the splits leaves these out, and
    an audit of what it released finds the same ones.

    Args:
        outside: the nodes in question.
        seed: of the run.
        site: its name.
    """
    found = outside.nonzero().squeeze(1)
    order = torch.randperm(found.numel(), generator=torch_generator(seed, site, "shadow nodes"))
    shadow = torch.zeros_like(outside)
    shadow[found[order[: found.numel() // 2].to(found.device)]] = True
    return shadow
