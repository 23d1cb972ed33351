"""How parts of neighbour sums are enciphered: under masks that cancel, or homomorphically."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedtag.client.context.messages import Messages
from fedtag.client.parts.neighbour_exchange.bundles import Bundle
from fedtag.common.parts.neighbour_exchange.homomorphic import Holder
from fedtag.common.parts.neighbour_exchange.masked_parts import masked_part, opened
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.masks import adds

Numbers = NDArray[np.float64]


class Cipher(Protocol):
    """Turns a site's part into bytes that can be added, and the sum into numbers."""

    def enciphered(self, bundle: Bundle, hop: int, values: Numbers) -> bytes:
        """The part of a sum."""
        ...

    def deciphered(self, bundle: Bundle, hop: int, body: bytes, size: int) -> Numbers:
        """What a sum of so many numbers says.

        Raises:
            WireError: it is none.
        """
        ...


class Masks:
    """Pairwise masks; see common/secure/masked_parts.py.

    Args:
        messages: knows the keys that the site shares with its peers.
        fixed: how numbers are encoded.
    """

    def __init__(self, messages: Messages, fixed: FixedPoint) -> None:
        self._messages = messages
        self._name = messages.site.name
        self._fixed = fixed

    def enciphered(self, bundle: Bundle, hop: int, values: Numbers) -> bytes:
        others = [owner for owner in bundle.owners if owner != self._name]
        plus = [self._key(peer, bundle, hop) for peer in others if adds(self._name, peer)]
        minus = [self._key(peer, bundle, hop) for peer in others if not adds(self._name, peer)]
        plus.append(self._key(bundle.recipient, bundle, hop))
        return masked_part(values, self._fixed, plus, minus)

    def deciphered(self, bundle: Bundle, hop: int, body: bytes, size: int) -> Numbers:
        keys = [self._key(peer, bundle, hop) for peer in bundle.owners]
        return opened(body, size, self._fixed, keys)

    def _key(self, peer: str, bundle: Bundle, hop: int) -> bytes:
        return self._messages.key_with(peer, canonical("neighbours", hop, bundle.slot))


class Homomorphic:
    """CKKS with the key that all clients share; see common/secure/homomorphic.py.

    Args:
        key: that one of them has drawn.

    Raises:
        WireError: it is none.
        ConfigError: TenSEAL is not installed.
    """

    def __init__(self, key: bytes) -> None:
        self._holder = Holder(key)

    def enciphered(self, bundle: Bundle, hop: int, values: Numbers) -> bytes:
        return self._holder.enciphered(values)

    def deciphered(self, bundle: Bundle, hop: int, body: bytes, size: int) -> Numbers:
        return self._holder.deciphered(body, size)
