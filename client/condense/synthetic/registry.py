"""Condensers, found by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Protocol, cast

import torch

from fedtag.common.errors import ConfigError
from fedtag.common.graph import Graph
from fedtag.common.settings.combinations import COPYING_CONDENSERS
from fedtag.common.settings.methods import CondenserConfig
from fedtag.common.synthetic.condensed import Condensed

__all__ = ["CONDENSERS", "Condensed", "Condenser", "Report", "condense"]

Report = Callable[[int, int], None]
"""Told what is done of a long condensation, and of how much."""

CONDENSERS = {
    "gcond": "gcond",
    "gcond-x": "gcond",
    "doscond": "doscond",
    "sfgc": "sfgc",
    "random": "random",
    "herding": "herding",
    "k-center": "k_center",
    "coarsening": "coarsening",
}
"""Modules of this package by the name of the condenser."""


class Condenser(Protocol):
    """The function `condensed` of a condenser's module."""

    def __call__(
        self,
        graph: Graph,
        size: int,
        settings: CondenserConfig,
        generator: torch.Generator,
        report: Report | None,
    ) -> Condensed:
        """Condense a graph that has training nodes; arguments as of `condense`."""
        ...


def condense(
    name: str,
    graph: Graph,
    size: int,
    settings: CondenserConfig,
    generator: torch.Generator,
    *,
    report: Report | None = None,
) -> Condensed:
    """Condense a graph into a few labelled nodes.

    The labels of training nodes alone enter what is learned; those of validation nodes decide when to stop, and
    those of test nodes are not read. The result lies on the graph's device.

    Args:
        name: one of CONDENSERS.
        graph: of a client, as its training may see it.
        size: condensed nodes wanted, `condensed_size(n, ratio)`; raised to the number of classes with a training
            node. Condensers that copy have at most as many nodes of a class as there are training nodes.
        settings: of all condensers.
        generator: on the CPU, so that draws are the same on all devices.
        report: told how far a long condensation is.

    Returns:
        without any node if the graph has no training node.

    Raises:
        ConfigError: the name is unknown.
        DivergenceError: the condensed features left the finite numbers.
    """
    if name not in CONDENSERS:
        choices = ", ".join(CONDENSERS)
        raise ConfigError(f"condenser.name is '{name}', but must be one of {choices}; choose one of these.")
    if not bool(graph.train_mask.any()):
        return Condensed.without_links(graph.x[:0], graph.y[:0], name in COPYING_CONDENSERS)
    module = importlib.import_module(f"fedtag.client.condense.synthetic.{CONDENSERS[name]}")
    chosen = settings.model_copy(update={"name": name})
    return cast(Condenser, module.condensed)(graph, size, chosen, generator, report)
