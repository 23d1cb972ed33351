"""Random coreset: training nodes drawn from each class, with the links between them."""

from __future__ import annotations

import torch

from client.condense.synthetic.choice import induced, members, places
from client.condense.synthetic.registry import Report
from common.graph import Graph
from common.method_sections import CondenserConfig
from common.synthetic.condensed import Condensed


def condensed(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """Uniform draws without replacement within each class; arguments as of `registry.condense`."""
    chosen = []
    for label, quota in enumerate(places(graph, size).tolist()):
        nodes = members(graph, label)
        order = torch.randperm(nodes.numel(), generator=generator).to(nodes.device)
        chosen.append(nodes[order[:quota]])
    return induced(graph, torch.cat(chosen).sort().values)
