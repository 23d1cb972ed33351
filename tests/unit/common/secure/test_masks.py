from __future__ import annotations

import hashlib

import numpy as np
import pytest
from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.agreement import agreed_secret, check_exchangeable, derived_key, public_bytes
from fedtag.common.secure.canonical import canonical, from_hex
from fedtag.common.secure.masks import (
    PIECE,
    Slot,
    adds,
    commitment,
    keystream,
    mask_key,
    masked,
    pair_key,
    self_key,
)

SLOT = Slot("run-1", "0" * 32, 3)
TOLD = bytes(32)
ONE, OTHER = bytes(range(16)), bytes(range(16, 32))


def words_of(key: bytes, count: int) -> np.ndarray:
    """The same stream by another library."""
    stream = AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=0).encrypt(bytes(8 * count))
    return np.frombuffer(stream, "<u8")


@pytest.mark.parametrize("words", [0, 1, 1000, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 17])
def test_the_keystream_is_aes_in_counter_mode(words: int) -> None:
    key = hashlib.sha256(b"key").digest()
    pieces = list(keystream(key, words))
    assert np.array_equal(np.concatenate([np.zeros(0, np.uint64), *pieces]), words_of(key, words))


def test_masks_are_added_and_subtracted_modulo_two_to_the_64() -> None:
    keys = [hashlib.sha256(bytes([number])).digest() for number in range(3)]
    size = PIECE + 5
    vector = np.arange(size, dtype=np.uint64)
    result = masked(vector, keys[:2], keys[2:])
    first, second, third = (words_of(key, size).astype(object) for key in keys)
    expected = (vector.astype(object) + first + second - third) % 2**64
    assert result.tolist() == expected.tolist()
    assert vector[5] == 5  # the argument stays


def test_pair_masks_cancel_and_belong_to_one_sum() -> None:
    first, second = mask_key(ONE, SLOT, "a"), mask_key(OTHER, SLOT, "b")
    there = pair_key(first, public_bytes(second), SLOT, "a", "b", TOLD)
    assert there == pair_key(second, public_bytes(first), SLOT, "b", "a", TOLD)
    assert pair_key(first, public_bytes(second), SLOT, "a", "b", b"1" * 32) != there
    assert adds("a", "b")
    assert not adds("b", "a")
    zeros = np.zeros(10, np.uint64)
    assert not (masked(zeros, [there], []) + masked(zeros, [], [there])).any()
    others = [Slot("run-2", "0" * 32, 3), Slot("run-1", "1" * 32, 3), Slot("run-1", "0" * 32, 4)]
    for slot in others:
        assert pair_key(first, public_bytes(second), slot, "a", "b", TOLD) != there
        assert self_key(ONE, slot, "a") != self_key(ONE, SLOT, "a")
        assert commitment(ONE, slot, "a") != commitment(ONE, SLOT, "a")
        assert public_bytes(mask_key(ONE, slot, "a")) != public_bytes(first)


def test_keys_are_hkdf_by_another_library() -> None:
    purpose = canonical("fedtag secure summation 1", "self", "run-1", "0" * 32, 3, "a")
    expected = HKDF(ONE, 32, b"", SHA256, context=purpose)
    assert self_key(ONE, SLOT, "a") == expected
    assert derived_key(ONE, "self", "run-1", "0" * 32, 3, "a") == expected


def test_agreement_is_the_published_example() -> None:
    # RFC 7748, section 6.1.
    private = X25519PrivateKey.from_private_bytes(
        bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    )
    public = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    expected = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert agreed_secret(private, public, "b").hex() == expected


@pytest.mark.parametrize("public", [bytes(32), bytes([1, *[0] * 31]), bytes([0xEC, *[0xFF] * 30, 0x7F])])
def test_degenerate_keys_are_refused(public: bytes) -> None:
    with pytest.raises(ProtocolError, match="of mallory protects nothing: it must draw another"):
        check_exchangeable(public, "mallory")
    with pytest.raises(ProtocolError, match="of mallory protects nothing"):
        pair_key(mask_key(ONE, SLOT, "a"), public, SLOT, "a", "mallory", TOLD)


PARTS = st.lists(st.one_of(st.text(), st.integers(), st.binary()), max_size=5)


@given(PARTS, PARTS)
def test_different_lists_give_different_bytes(
    one: list[str | int | bytes], two: list[str | int | bytes]
) -> None:
    same = [(type(part), part) for part in one] == [(type(part), part) for part in two]
    assert (canonical(*one) == canonical(*two)) == same


@given(st.one_of(st.text(max_size=9), st.integers(), st.none(), st.binary(max_size=8)))
def test_only_lower_case_digits_of_the_right_number_pass(value: object) -> None:
    valid = isinstance(value, str) and len(value) == 4 and all(digit in "0123456789abcdef" for digit in value)
    if valid:
        assert from_hex(value, 2, "it").hex() == value
    else:
        with pytest.raises(ProtocolError, match="it must be 4 lower-case hexadecimal digits"):
            from_hex(value, 2, "it")


@pytest.mark.parametrize("value", ["00 1", "AB01", "0x01", "٠١٢٣"])
def test_look_alikes_of_digits_are_refused(value: str) -> None:
    with pytest.raises(ProtocolError, match="lower-case hexadecimal digits"):
        from_hex(value, 2, "it")
