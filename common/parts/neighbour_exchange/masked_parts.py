"""Parts of a sum under masks: whoever adds them learns nothing, and who gets the sum learns the sum alone.

As in common/secure/masks.py, those who contribute share a mask with each other, and these cancel in the sum; each of
them shares another one with the recipient, who alone takes these off. What one contributor says is covered by its masks
with the other contributors even where the recipient and whoever adds work together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float64

from fedtag.common.errors import WireError
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.masks import masked

WORD = np.dtype("<u8")


def masked_part(
    values: Float64[np.ndarray, " n"], fixed: FixedPoint, plus: Iterable[bytes], minus: Iterable[bytes]
) -> bytes:
    """A contribution in fixed point, under the keystreams of its keys.

    Args:
        values: to be added.
        fixed: the encoding.
        plus: 32-byte keys whose masks are added; each serves for one vector of each of its two owners only.
        minus: those whose masks are subtracted.

    Raises:
        DivergenceError: a value is not finite, or beyond the limit.
    """
    return masked(fixed.encode(values), plus, minus).astype(WORD).tobytes()


def added(bodies: Sequence[bytes]) -> bytes:
    """The sum of parts, modulo 2^64.

    Raises:
        WireError: they are of different lengths.
    """
    if len({len(body) for body in bodies}) > 1 or len(bodies[0]) % WORD.itemsize:
        raise WireError("parts of a sum have different lengths")
    total = np.frombuffer(bodies[0], WORD).copy()
    for body in bodies[1:]:
        total += np.frombuffer(body, WORD)
    return total.tobytes()


def opened(body: bytes, size: int, fixed: FixedPoint, keys: Iterable[bytes]) -> Float64[np.ndarray, " n"]:
    """What a sum of parts stands for.

    Args:
        body: as of `added`.
        size: how many numbers it holds.
        fixed: the encoding.
        keys: those that the recipient shares with the contributors.

    Raises:
        WireError: it is of another length.
    """
    if len(body) != size * WORD.itemsize:
        raise WireError(f"a sum of {size} numbers has {len(body)} bytes")
    total = np.frombuffer(body, WORD).astype(np.uint64)
    return fixed.decode(masked(total, (), keys))
