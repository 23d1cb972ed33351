"""K-center (Sener and Savarese, 2018): training nodes from which no other of their class is far."""

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
    """Greedy k-center within each class on features propagated over two hops; arguments as of `condense`."""
    z = smoothed(graph)
    return coreset(graph, size, lambda nodes, quota: centres(z[nodes], quota))


def centres(z: Float[Tensor, "nodes dim"], count: int) -> Int[Tensor, " chosen"]:
    """Farthest-first traversal from the row nearest to the mean: at most twice the smallest possible radius.

    Args:
        z: of one class.
        count: rows wanted, at most all; ties go to the first row.
    """
    points = z.double()
    row = int((points - points.mean(0)).square().sum(1).argmin()) if count else 0
    radius = points.new_full((points.shape[0],), torch.inf)
    left = torch.ones(points.shape[0], dtype=torch.bool, device=z.device)
    chosen = []
    for _ in range(count):
        chosen.append(row)
        left[row] = False
        radius = torch.minimum(radius, (points - points[row]).square().sum(1))
        # Equal rows have radius 0 and must not be chosen twice.
        row = int(torch.where(left, radius, -1.0).argmax())
    return torch.tensor(chosen, dtype=torch.int64, device=z.device)
