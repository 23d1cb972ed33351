"""Secrets split among members so that more than two thirds of them can restore one (Shamir, 1979)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from Crypto.Protocol.SecretSharing import Shamir

from fedtag.common.errors import ProtocolError


def threshold(members: int) -> int:
    """How many shares restore a secret: max(⌊2N/3⌋ + 1, 3), and all N for N ≤ 3.

    Any two groups of so many members have more than N/3 members in common.

    Raises:
        ProtocolError: fewer than 2 members: one member's sum is its update.
    """
    if members < 2:
        raise ProtocolError(f"{members} member cannot hide anything in a sum: at least 2 are needed")
    return members if members <= 3 else max(2 * members // 3 + 1, 3)


def ranks(names: Iterable[str]) -> dict[str, int]:
    """The index of each member's shares: its place among the sorted names, from 1."""
    return {name: rank for rank, name in enumerate(sorted(names), start=1)}


def split_secret(secret: bytes, needed: int, members: int) -> dict[int, bytes]:
    """Shares of 16 bytes by rank, of a secret of 16 bytes; fewer than `needed` of them say nothing about it."""
    return dict(Shamir.split(needed, members, secret, ssss=False))


def combine_shares(shares: Mapping[int, bytes]) -> bytes:
    """The secret of 16 bytes, from exactly as many shares as are needed; wrong shares give a wrong secret."""
    return Shamir.combine(sorted(shares.items()), ssss=False)
