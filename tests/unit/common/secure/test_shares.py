from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.reconstruction import Reconstruction
from fedtag.common.secure.shares import combine_shares, ranks, split_secret, threshold

SECRET = bytes(range(100, 116))


def doubled(element: int) -> int:
    """Times x in GF(2^128) modulo 1 + x + x² + x⁷ + x¹²⁸."""
    element <<= 1
    return element ^ (2**128 + 0b10000111) if element >> 128 else element


def test_threshold_is_the_formula() -> None:
    assert [threshold(n) for n in range(2, 13)] == [2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9]
    assert threshold(20) == 14
    for members in range(4, 200):
        assert 2 * threshold(members) - members > members / 3  # two quorums share more than a third
    with pytest.raises(ProtocolError, match="1 member cannot hide anything"):
        threshold(1)


def test_ranks_follow_sorted_names() -> None:
    assert ranks(["c", "a", "b"]) == {"a": 1, "b": 2, "c": 3}


@given(st.binary(min_size=16, max_size=16))
def test_two_shares_are_a_line_over_the_field(secret: bytes) -> None:
    shares = {rank: int.from_bytes(share, "big") for rank, share in split_secret(secret, 2, 3).items()}
    # Through (2, y2) and (3, y3), at zero: (3·y2 + 2·y3) / (2 + 3), and 2 + 3 = 1 in this field.
    at_zero = doubled(shares[2]) ^ shares[2] ^ doubled(shares[3])
    assert at_zero == int.from_bytes(secret, "big")


def test_any_subset_of_the_threshold_restores_and_a_smaller_one_does_not() -> None:
    shares = split_secret(SECRET, 4, 6)
    assert len(set(shares.values())) == 6
    for subset in combinations(shares, 4):
        assert combine_shares({rank: shares[rank] for rank in subset}) == SECRET
    for subset in combinations(shares, 3):
        assert combine_shares({rank: shares[rank] for rank in subset}) != SECRET


def test_one_share_less_fits_every_secret() -> None:
    # With the line through (1, y) fixed, each secret gives another slope: y alone excludes none.
    seen = {split_secret(SECRET, 2, 3)[1] for _ in range(50)}
    assert len(seen) == 50


def spoiled(shares: dict[int, bytes], wrong: tuple[int, ...]) -> dict[int, bytes]:
    return {rank: bytes(16) if rank in wrong else share for rank, share in shares.items()}


@pytest.mark.parametrize("members", [4, 6, 10, 20])
def test_one_wrong_share_is_worked_around_quickly(members: int) -> None:
    needed = threshold(members)
    shares = split_secret(SECRET, needed, members)
    for wrong in {1, needed, members}:
        few = -(-members // (members - needed)) + 1
        reconstruction = Reconstruction(needed, np.random.default_rng(0), tries=few)
        assert reconstruction.secret(spoiled(shares, (wrong,)), SECRET.__eq__) == SECRET


def test_shares_that_fitted_are_tried_first() -> None:
    reconstruction = Reconstruction(4, np.random.default_rng(0), tries=1)
    shares = spoiled(split_secret(SECRET, 4, 6), (1,))
    attempts = []

    def fits(candidate: bytes) -> bool:
        attempts.append(candidate)
        return candidate == SECRET

    patient = Reconstruction(4, np.random.default_rng(0))
    assert patient.secret(shares, fits) == SECRET
    before = len(attempts)
    assert before > 1
    assert patient.secret(shares, fits) == SECRET
    assert len(attempts) == before + 1
    assert reconstruction.secret(spoiled(shares, (2, 3)), fits) is None


def test_as_many_wrong_shares_as_are_spare_are_found_among_all_subsets() -> None:
    shares = split_secret(SECRET, 5, 7)
    for wrong in combinations(range(1, 8), 2):
        assert (
            Reconstruction(5, np.random.default_rng(1)).secret(spoiled(shares, wrong), SECRET.__eq__)
            == SECRET
        )
    for wrong in combinations(range(1, 8), 3):
        assert (
            Reconstruction(5, np.random.default_rng(1)).secret(spoiled(shares, wrong), SECRET.__eq__) is None
        )


def test_it_gives_up_after_the_tries_it_has() -> None:
    attempts = []

    def never(candidate: bytes) -> bool:
        attempts.append(candidate)
        return False

    reconstruction = Reconstruction(7, np.random.default_rng(2), tries=30)
    shares = split_secret(SECRET, 7, 14)
    assert reconstruction.secret(shares, never) is None
    assert len(attempts) == 31
    assert reconstruction.secret(shares, never) is None
    assert len(attempts) == 32
