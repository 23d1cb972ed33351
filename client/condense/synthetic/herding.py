"""Herding (Welling, 2009): training nodes whose mean stays closest to the mean of their class."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.condense.condenser import Report
from fedtag.client.condense.synthetic.choice import coreset, smoothed
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig
from fedtag.common.synthetic.condensed import Condensed


def condensed(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """Herding within each class on features propagated over two hops; arguments as of `condense`."""
    z = smoothed(graph)
    return coreset(graph, size, lambda nodes, quota: herded(z[nodes], quota))


def herded(z: Float[Tensor, "nodes dim"], count: int) -> Int[Tensor, " chosen"]:
    """Greedy choice: each time the row with which the mean of the chosen ones comes closest to that of all rows.

    Args:
        z: of one class.
        count: rows wanted, at most all; ties go to the first row.
    """
    goal, total = z.double().mean(0), torch.zeros_like(z[:1].double().sum(0))
    left = torch.ones(z.shape[0], dtype=torch.bool, device=z.device)
    chosen = []
    for step in range(1, count + 1):
        apart = ((total + z.double()) / step - goal).square().sum(1)
        row = int(torch.where(left, apart, torch.inf).argmin())
        left[row] = False
        total = total + z[row].double()
        chosen.append(row)
    return torch.tensor(chosen, dtype=torch.int64, device=z.device)
