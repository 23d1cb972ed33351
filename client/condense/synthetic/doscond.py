"""DosCond (Jin et al., 2022b): gradient matching in one step, at initial models only."""

from __future__ import annotations

import torch

from client.condense.synthetic.gcond import matched
from client.condense.synthetic.registry import Report
from common.graph import Graph
from common.settings.methods import CondenserConfig
from common.synthetic.condensed import Condensed


def condensed(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """As many matches as GCond's, each at a fresh model; arguments as of `registry.condense`."""
    models = settings.outer_loops * settings.inner_loops
    return matched(graph, size, settings, generator, report, models, 1)
