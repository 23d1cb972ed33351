"""DosCond (Jin et al., 2022b): gradient matching in one step, at initial models only."""

from __future__ import annotations

import torch

from fedtag.client.condense.condenser import Report
from fedtag.client.condense.synthetic.gcond import matched
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig
from fedtag.common.synthetic.condensed import Condensed


def condensed(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """As many matches as GCond's, each at a fresh model; arguments as of `condense`."""
    models = settings.outer_loops * settings.inner_loops
    return matched(graph, size, settings, generator, report, models, 1)
