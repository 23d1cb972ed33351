"""CKKS sums; skipped where the extra `he` is not installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fedtag.common.errors import ConfigError, WireError
from fedtag.common.parts.neighbour_exchange.homomorphic import SLOTS, Holder, added, fresh_key, tenseal


@pytest.fixture(scope="module")
def key() -> bytes:
    pytest.importorskip("tenseal", reason="the extra he (TenSEAL) is not installed")
    return fresh_key()


@pytest.mark.parametrize("size", [1, SLOTS, SLOTS + 1, 3 * SLOTS + 7])
def test_sums_are_those_of_the_plain_numbers(key: bytes, size: int) -> None:
    rng = np.random.default_rng(size)
    values = [rng.normal(0, 1, size) * rng.choice([0, 0.01, 1], size) for _ in range(5)]
    holder = Holder(key)
    found = holder.deciphered(added([holder.enciphered(one) for one in values]), size)
    np.testing.assert_allclose(found, sum(values), rtol=1e-6, atol=1e-6)


def test_the_key_reads_and_nothing_else_does(key: bytes) -> None:
    values = np.arange(10.0)
    body = Holder(key).enciphered(values)
    np.testing.assert_allclose(Holder(key).deciphered(body, 10), values, atol=1e-6)
    try:
        other = Holder(fresh_key()).deciphered(body, 10)
    except WireError:
        return
    assert np.abs(other - values).max() > 1e3


def test_a_key_without_its_secret_part_is_none(key: bytes) -> None:
    public = tenseal().context_from(key).serialize(save_secret_key=False)
    with pytest.raises(WireError, match="no secret part"):
        Holder(public)
    with pytest.raises(WireError, match="cannot be read"):
        Holder(b"nothing")


def test_malformed_ciphertexts_are_refused(key: bytes) -> None:
    holder = Holder(key)
    body = holder.enciphered(np.ones(5))
    for bad in (b"abc", body[:-9], b"\0\0\0\x05xxxxx"):
        with pytest.raises(WireError):
            holder.deciphered(bad, 5)
    for bad in (body[:-9], body[:4] + bytes(len(body) - 4)):
        with pytest.raises(WireError):
            added([body, bad])
    with pytest.raises(WireError, match="different lengths"):
        added([body, holder.enciphered(np.ones(6))])
    with pytest.raises(WireError, match="holds 5"):
        holder.deciphered(body, 6)
    for number in (np.nan, np.inf, 1e9):
        with pytest.raises(WireError, match="scale the features"):
            holder.enciphered(np.array([number]))


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal", None)
    with pytest.raises(ConfigError, match=r"fedtag\[he\].*neighbour-exchange\.mode = summed"):
        fresh_key()
