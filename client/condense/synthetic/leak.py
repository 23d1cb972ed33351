"""Whether condensed nodes are real ones, or nearly so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

BLOCK = 1024


@dataclass(frozen=True)
class Leak:
    """Shares of the condensed nodes, in [0, 1].

    Args:
        copied: whose features are a real node's, bit for bit.
        close: which are closer to a real node than the nearest other real node is to it: an indicator that one node
            can be told from them.
    """

    copied: float
    close: float


def leak(condensed: Float[Tensor, "core dim"], real: Float[Tensor, "nodes dim"]) -> Leak:
    """Compare condensed nodes with all real ones, in blocks: memory grows with core · nodes at most.

    Args:
        condensed: X'.
        real: X.
    """
    if not condensed.shape[0] or not real.shape[0]:
        return Leak(0.0, 0.0)
    equal = copied_rows(condensed, real)
    apart, nearest = _nearest(condensed, real, None)
    between, _ = _nearest(real[nearest], real, nearest)
    return Leak(float(equal.double().mean()), float((apart < between).double().mean()))


def single_rows(real: Float[Tensor, "nodes dim"]) -> Bool[Tensor, " nodes"]:
    """Which rows equal no other one."""
    _, place, count = torch.unique(real, dim=0, return_inverse=True, return_counts=True)
    return count[place] == 1


def copied_rows(
    condensed: Float[Tensor, "core dim"], real: Float[Tensor, "nodes dim"]
) -> Bool[Tensor, " core"]:
    """Which condensed rows equal a real row in every entry."""
    return torch.from_numpy(np.isin(_keys(condensed), _keys(real)))


def _keys(x: Float[Tensor, "rows dim"]) -> np.ndarray:
    # One number a row, of arbitrary bytes; the sum has no negative zero.
    rows = np.ascontiguousarray((x.detach().cpu() + 0.0).numpy())
    return np.array([row.tobytes() for row in rows], dtype=object)


def _nearest(
    rows: Float[Tensor, "rows dim"], real: Float[Tensor, "nodes dim"], own: Int[Tensor, " rows"] | None
) -> tuple[Float[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Distance and index of the nearest real row to each; `own` is the real row that does not count."""
    distances, indices = [], []
    for begin in range(0, rows.shape[0], BLOCK):
        part = slice(begin, begin + BLOCK)
        # Differences rather than products of rows, which would round small distances away.
        apart = torch.cdist(rows[part].double(), real.double(), compute_mode="donot_use_mm_for_euclid_dist")
        if own is not None:
            apart.scatter_(1, own[part].unsqueeze(1), torch.inf)
        least = apart.min(1)
        distances.append(least.values)
        indices.append(least.indices)
    return torch.cat(distances), torch.cat(indices)
