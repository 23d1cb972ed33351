"""Secrets restored from shares of which some may be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

import numpy as np

from fedtag.common.secure.shares import combine_shares

MOST_TRIES = 200


class Reconstruction:
    """Restores the secrets of one sum; it remembers whose shares fitted, and begins with those.

    A share that does not fit is at the fault of the one who dealt it or of the one who passed it on; the
    shares alone do not tell which.

    Args:
        needed: shares that restore a secret, at least 2.
        generator: draws the subsets to try where there are many.
        tries: combinations that may fail before everything is given up, over all secrets together.
    """

    def __init__(self, needed: int, generator: np.random.Generator, tries: int = MOST_TRIES) -> None:
        self.needed = needed
        self._generator = generator
        self._left = tries
        self._fitted: frozenset[int] = frozenset()

    def secret(self, shares: Mapping[int, bytes], fits: Callable[[bytes], bool]) -> bytes | None:
        """The secret that fits, or None if no combination that could be tried gives it.

        Args:
            shares: by rank, at least `needed`.
            fits: says of a candidate whether it is the secret.
        """
        ordered = sorted(shares, key=lambda rank: (rank not in self._fitted, rank))
        for subset in self._subsets(ordered):
            candidate = combine_shares({rank: shares[rank] for rank in subset})
            if fits(candidate):
                self._fitted = frozenset(subset)
                return candidate
            self._left -= 1
            if self._left < 0:
                return None
        return None

    def _subsets(self, ordered: list[int]) -> Iterator[tuple[int, ...]]:
        """Each subset once; the first few suffice where one share is wrong and one more than needed is there."""
        tried = set()
        for subset in self._candidates(ordered):
            key = frozenset(subset)
            if key not in tried:
                tried.add(key)
                yield subset

    def _candidates(self, ordered: list[int]) -> Iterator[tuple[int, ...]]:
        count, spare = len(ordered), len(ordered) - self.needed
        yield tuple(ordered[: self.needed])
        if spare == 0:
            return
        # Windows of left-out shares that cover everyone: one wrong share is in one of them.
        for start in range(0, count, spare):
            out = {(start + step) % count for step in range(spare)}
            yield tuple(rank for place, rank in enumerate(ordered) if place not in out)
        if math.comb(count, self.needed) <= MOST_TRIES:
            yield from combinations(ordered, self.needed)
            return
        for _ in range(MOST_TRIES):
            drawn = self._generator.choice(count, self.needed, replace=False)
            yield tuple(ordered[place] for place in sorted(drawn.tolist()))
