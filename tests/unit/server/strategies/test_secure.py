from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from Crypto.Cipher import AES
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedtag.common.errors import FedtagError, ProtocolError, QuorumError
from fedtag.common.secure.agreement import public_bytes
from fedtag.common.secure.block import Block
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.identity import PublicIdentity
from fedtag.common.secure.masks import commitment, mask_key, pair_key, self_key
from fedtag.common.secure.shares import split_secret
from fedtag.server.strategies.secure import open_sum

FIXED = FixedPoint(40, 1000.0)
SIZE = 300
TOLD = bytes(32)


@dataclass
class Transcript:
    """One sum among members who follow the protocol, computed in the open by another AES."""

    block: Block
    vectors: dict[str, np.ndarray]
    uploads: dict[str, np.ndarray]
    shares: dict[str, dict[str, dict[int, bytes]]]

    def releases(self, survivors: list[str], answering: list[str]) -> dict[str, Any]:
        ranks = self.block.plan.ranks
        return {
            name: {
                "self": {owner: self.shares[owner]["b"][ranks[name]].hex() for owner in survivors},
                "pair": {
                    owner: self.shares[owner]["k"][ranks[name]].hex()
                    for owner in self.block.members
                    if owner not in survivors
                },
            }
            for name in answering
        }

    def opened(self, survivors: list[str], releases: dict[str, Any]) -> np.ndarray:
        uploads = {name: self.uploads[name] for name in survivors}
        return open_sum(self.block, 0, uploads, releases, FIXED, TOLD)

    def expected(self, survivors: list[str]) -> np.ndarray:
        return np.sum([self.vectors[name] for name in survivors], axis=0)


def stream(key: bytes) -> np.ndarray:
    return np.frombuffer(AES.new(key, AES.MODE_CTR, nonce=b"").encrypt(bytes(8 * SIZE)), "<u8")


def transcript(count: int, absent: int = 0, seed: int = 0) -> Transcript:
    """A sum of `count` members, of whom some more were asked and did not prepare it."""
    generator = np.random.default_rng([seed, count])
    names = [f"client-{number:02d}" for number in range(count + absent)]
    asked = {
        name: PublicIdentity(public_bytes(X25519PrivateKey.generate()), generator.bytes(32)) for name in names
    }
    plan = Block.planned("run-1", 1, asked)
    secrets = {name: (generator.bytes(16), generator.bytes(16)) for name in names[absent:]}
    slot = plan.completed(
        {
            name: plan.accepted(
                name, {"mask_keys": ["09" + "00" * 31], "commitments": ["00" * 32], "draw": ""}
            )
            for name in secrets
        }
    ).slot(0)
    private = {name: mask_key(pair[0], slot, name) for name, pair in secrets.items()}
    block = plan.completed(
        {
            name: plan.accepted(
                name,
                {
                    "mask_keys": [public_bytes(private[name]).hex()],
                    "draw": "",
                    "commitments": [commitment(pair[1], slot, name).hex()],
                },
            )
            for name, pair in secrets.items()
        }
    )
    vectors = {name: generator.normal(size=SIZE) for name in secrets}
    uploads = {}
    for name, (_, alone) in secrets.items():
        upload = np.rint(vectors[name] * 2**40).astype(np.int64).view(np.uint64) + stream(
            self_key(alone, slot, name)
        )
        for peer in secrets:
            if peer != name:
                mask = stream(pair_key(private[name], public_bytes(private[peer]), slot, name, peer, TOLD))
                upload = upload + mask if name < peer else upload - mask
        uploads[name] = upload
    shares = {
        name: {
            "k": split_secret(pair[0], plan.threshold, len(names)),
            "b": split_secret(pair[1], plan.threshold, len(names)),
        }
        for name, pair in secrets.items()
    }
    return Transcript(block, vectors, uploads, shares)


@pytest.mark.parametrize(
    ("count", "absent", "dropped", "silent"),
    [
        (2, 0, 0, 0),
        (3, 0, 0, 0),
        (4, 0, 1, 0),
        (4, 1, 0, 0),
        (6, 0, 1, 0),
        (7, 0, 0, 2),
        (9, 2, 1, 0),
        (13, 1, 2, 1),
    ],
)
def test_the_sum_of_the_survivors_is_opened(count: int, absent: int, dropped: int, silent: int) -> None:
    one = transcript(count, absent)
    names = list(one.block.members)
    survivors = names[dropped:]
    releases = one.releases(survivors, survivors[silent:])
    total = one.opened(survivors, releases)
    error = np.abs(total - one.expected(survivors)).max()
    assert error <= FIXED.error_bound(count) + count * 2.0**-50  # the second is the oracle's own rounding


def test_arguments_stay_as_they_were() -> None:
    one = transcript(4)
    before = {name: upload.copy() for name, upload in one.uploads.items()}
    names = list(one.uploads)
    one.opened(names, one.releases(names, names))
    assert all(np.array_equal(one.uploads[name], before[name]) for name in names)


def test_too_little_is_a_quorum_error_that_says_what_is_missing() -> None:
    one = transcript(6)
    names = list(one.block.members)
    with pytest.raises(
        QuorumError, match=r"4 masked uploads arrived, 5 of 6 .* client-04, client-05 did not send"
    ):
        one.opened(names[:4], one.releases(names[:4], names[:4]))
    with pytest.raises(QuorumError, match="4 members released shares of sum 0, 5 are needed"):
        one.opened(names, one.releases(names, names[:4]))
    releases = one.releases(names[:5], names[:5])
    del releases["client-00"]["pair"]["client-05"]  # its letter did not arrive there
    with pytest.raises(QuorumError, match="4 members released a pair share of client-05"):
        one.opened(names[:5], releases)


def test_releases_of_those_who_did_not_survive_do_not_count() -> None:
    one = transcript(6)
    names = list(one.block.members)
    releases = one.releases(names[:5], [*names[:4], "client-05"])
    with pytest.raises(QuorumError, match="4 members released shares"):
        one.opened(names[:5], releases)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda release: None,
        lambda release: [],
        lambda release: {"self": release["self"]},
        lambda release: {**release, "more": {}},
        lambda release: {**release, "self": []},
        lambda release: {**release, "pair": {"client-00": "00" * 16}},
        lambda release: {**release, "self": {**release["self"], "stranger": "00" * 16}},
        lambda release: {**release, "self": {**release["self"], "client-01": "00" * 15}},
        lambda release: {**release, "self": {**release["self"], "client-01": 7}},
    ],
)
def test_a_malformed_release_costs_its_sender_only(spoil: Callable[[Any], Any]) -> None:
    one = transcript(6)
    names = list(one.block.members)
    releases = one.releases(names, names)
    releases["client-02"] = spoil(releases["client-02"])
    assert np.allclose(one.opened(names, releases), one.expected(names), atol=1e-9)
    del releases["client-05"]
    with pytest.raises(
        QuorumError, match=r"4 members released shares of sum 0, 5 are needed.*client-02 released"
    ):
        one.opened(names, releases)


def test_wrong_shares_are_worked_around_as_long_as_others_suffice() -> None:
    one = transcript(7)
    names = list(one.block.members)
    releases = one.releases(names, names)
    for name in ("client-00", "client-03"):
        releases[name]["self"] = dict.fromkeys(releases[name]["self"], "11" * 16)
    assert np.allclose(one.opened(names, releases), one.expected(names), atol=1e-9)
    releases["client-06"]["self"]["client-02"] = "22" * 16
    with pytest.raises(
        ProtocolError, match="the self shares of client-02 for sum 0 do not give what it committed to"
    ):
        one.opened(names, releases)


def test_a_wrong_pair_share_is_noticed() -> None:
    one = transcript(6)
    survivors = list(one.block.members)[1:]
    releases = one.releases(survivors, survivors)
    releases["client-03"]["pair"]["client-00"] = "11" * 16
    with pytest.raises(ProtocolError, match="the pair shares of client-00 for sum 0 do not give"):
        one.opened(survivors, releases)


def test_shares_of_another_sum_open_nothing() -> None:
    one, other = transcript(5), transcript(5, seed=1)
    names = list(one.block.members)
    with pytest.raises(ProtocolError, match="do not give what it committed to"):
        one.opened(names, other.releases(names, names))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda upload: upload[:-1], r"the upload of client-01 is uint64 of shape \(299,\)"),
        (lambda upload: upload.astype(np.float64), "the upload of client-01 is float64"),
        (lambda upload: upload.reshape(1, -1), r"the upload of client-01 is uint64 of shape \(1, 300\)"),
    ],
)
def test_uploads_of_another_form_are_refused(
    change: Callable[[np.ndarray], np.ndarray], message: str
) -> None:
    one = transcript(4)
    names = list(one.block.members)
    one.uploads["client-01"] = change(one.uploads["client-01"])
    with pytest.raises(ProtocolError, match=message):
        one.opened(names, one.releases(names, names))


def test_strangers_other_sums_and_too_many_members_are_refused() -> None:
    one = transcript(4)
    names = list(one.block.members)
    releases = one.releases(names, names)
    with pytest.raises(ProtocolError, match="stranger uploaded without being in the block"):
        open_sum(one.block, 0, {**one.uploads, "stranger": one.uploads[names[0]]}, releases, FIXED, TOLD)
    with pytest.raises(ProtocolError, match="sum 1 is not in the block"):
        open_sum(one.block, 1, one.uploads, releases, FIXED, TOLD)
    with pytest.raises(ProtocolError, match="4 members could overflow 64 bits, 3 cannot"):
        open_sum(one.block, 0, one.uploads, releases, FixedPoint(52, 600.0), TOLD)


def test_any_wrong_upload_gives_noise_and_no_crash() -> None:
    one = transcript(4)
    names = list(one.block.members)
    one.uploads["client-00"] = one.uploads["client-00"] + np.uint64(2**63)
    total = one.opened(names, one.releases(names, names))
    assert np.isfinite(total).all()
    assert np.abs(total).min() > 1e6
    with pytest.raises(FedtagError):
        one.opened(names[:2], {})
