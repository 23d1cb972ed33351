"""Random coreset: training nodes drawn from each class, with the links between them."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from fedtag.client.condense.condenser import Report
from fedtag.client.condense.synthetic.choice import coreset
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig
from fedtag.common.synthetic.condensed import Condensed


def condensed(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """Uniform draws without replacement within each class; arguments as of `condense`."""

    def drawn(nodes: Int[Tensor, " members"], quota: int) -> Int[Tensor, " chosen"]:
        return torch.randperm(nodes.numel(), generator=generator)[:quota].to(nodes.device)

    return coreset(graph, size, drawn)
