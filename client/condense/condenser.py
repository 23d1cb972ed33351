"""Condensers, found by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from fedtag.common.condensers.spec import CONDENSERS
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import Section
from fedtag.common.synthetic.condensed import Condensed

Report = Callable[[int, int], None]
"""Told what is done of a long condensation, and of how much."""


class Condenser(Protocol):
    """The function that a condenser's specification names."""

    def __call__(
        self,
        graph: Graph,
        size: int,
        settings: Section,
        generator: torch.Generator,
        report: Report | None,
    ) -> Condensed:
        """Condense a graph that has training nodes; arguments as of `condense`."""
        ...


def condense(
    name: str,
    graph: Graph,
    size: int,
    settings: Section,
    generator: torch.Generator,
    *,
    report: Report | None = None,
) -> Condensed:
    """Condense a graph into a few labelled nodes.

    The labels of training nodes alone enter what is learned; those of validation nodes decide when to stop, and
    those of test nodes are not read. The result lies on the graph's device.

    Args:
        name: of an installed condenser that works once.
        graph: of a client, as its training may see it.
        size: condensed nodes wanted, `condensed_size(n, ratio)`; raised to the number of classes with a training
            node. Condensers that copy have at most as many nodes of a class as there are training nodes.
        settings: its own table; that of all condensers where it has none.
        generator: on the CPU, so that draws are the same on all devices.
        report: told how far a long condensation is.

    Returns:
        without any node if the graph has no training node.

    Raises:
        ConfigError: the name is unknown.
        DivergenceError: the condensed features left the finite numbers.
    """
    spec = CONDENSERS.get(name)
    if not bool(graph.train_mask.any()):
        return Condensed.without_links(graph.x[:0], graph.y[:0], spec.copies)
    work: Condenser = CONDENSERS.resolved(spec, spec.condensed)
    return work(graph, size, settings, generator, report)
