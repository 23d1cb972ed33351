"""A stream of dropout masks in which every draw has a place of its own.

A draw follows from the run's seed, the round, the client's name, the epoch, the layer, and its place in the table
alone: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) of a counter. So it is the same whoever else is trained beside
the client, on every device, and nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Int16
from torch import Tensor

from fedtag.common.models.dropout import MaskSource
from fedtag.common.randomness import derive_seed

STEP = 0x9E3779B97F4A7C15 - (1 << 64)
FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
SECOND = 0x94D049BB133111EB - (1 << 64)
"""Of SplitMix64, as signed numbers; products wrap around."""
LAYERS = 1 << 16
"""More than any model has."""


def mixed(value: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """SplitMix64's output function, in place: numbers that are a step apart come out as if drawn."""
    for places, factor in ((30, FIRST), (27, SECOND), (31, 1)):
        # A shift of signed numbers repeats the sign.
        shifted = (value >> places).bitwise_and_((1 << (64 - places)) - 1)
        value.bitwise_xor_(shifted)
        if factor != 1:
            value.mul_(factor)
    return value


class ClientMasks(MaskSource):
    """The masks of clients' tables side by side.

    Args:
        seed: of the run.
        names: of the clients, in the order of their rows.
        rows: of each.
        number: of the round, on the device; it may change between two uses.
    """

    def __new__(cls, *_: object) -> ClientMasks:
        return super().__new__(cls)

    def __init__(self, seed: int, names: Sequence[str], rows: int, number: Int[Tensor, ""]) -> None:
        super().__init__()
        keys = [derive_seed(seed, name, "stacked dropout") for name in names]
        self.keys = torch.tensor(keys, device=number.device)
        self.rows, self.number = rows, number
        self._epoch, self._layer = 0, 0

    def begin(self, epoch: int) -> None:
        """The next draws are for an epoch's first layer."""
        self._epoch, self._layer = epoch, 0

    def draws(self, x: Float[Tensor, "rows columns"]) -> Int16[Tensor, "rows columns"]:
        self._layer += 1
        place = self._epoch * LAYERS + self._layer
        keys = mixed(mixed(self.keys + STEP * self.number).add_(place))
        # Four entries of a row share a draw of 64 bits; rows beyond a client's own change none of its draws.
        width = -(-x.shape[1] // 4)
        count = torch.arange(1, self.rows * width + 1, device=x.device)
        bits = mixed(keys[:, None] + STEP * count).view(torch.int16)
        return bits.view(len(x), 4 * width)[:, : x.shape[1]]
