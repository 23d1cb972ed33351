"""Secure summation from end to end: members that live on disk only, and a server that may be dishonest.

Both halves of the protocol meet here and nowhere else without Flower: `fedtag.client.secure` and
`fedtag.server.strategies.secure` share nothing but JSON, letters and vectors.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedtag.client.secure.member import Member
from fedtag.common.errors import FedtagError, ProtocolError, QuorumError
from fedtag.common.secure.agreement import public_bytes
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.identity import Identity, PublicIdentity
from fedtag.common.secure.masks import mask_key, masked, pair_key, self_key
from fedtag.common.secure.shares import combine_shares, threshold
from fedtag.common.wire.records import Letter
from fedtag.server.strategies.secure import Block, open_sum

FIXED = FixedPoint(40, 1024.0)
RUN = "run-1"
TOLD = bytes(32)
"""The digest of what all members are asked for."""
MEMORY = Path("/dev/shm")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: thousands of messages each wait until their file is on disk."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def crossed(value: Any) -> Any:
    """What arrives at the other end of a JSON wire."""
    return json.loads(json.dumps(value, allow_nan=False))


@dataclass
class Federation:
    """Sites, of which only folders last, and what a server that relays for them sees."""

    folder: Path
    names: tuple[str, ...]
    pinned: bool = False
    letters: list[Letter] = field(default_factory=list)
    uploads: dict[tuple[str, int], dict[str, np.ndarray]] = field(default_factory=dict)
    releases: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)

    def identity(self, name: str) -> Identity:
        return Identity.at(self.folder / name / "identity")

    def member(self, name: str) -> Member:
        """The site as a new process finds it."""
        roster = {peer: self.identity(peer).public for peer in self.names} if self.pinned else None
        return Member(name, RUN, self.folder / name / "secure", self.identity(name), roster, FIXED)

    def set_up(self, sums: int, absent: Collection[str] = ()) -> Block:
        asked = {name: PublicIdentity.from_json(self.member(name).keys(), name) for name in self.names}
        plan = Block.planned(RUN, sums, asked)
        self.letters, published = [], {}
        for name in self.names:
            if name not in absent:
                reply, letters = self.member(name).set_up(crossed(plan.as_json()))
                published[name] = plan.accepted(name, crossed(reply))
                self.letters += letters
        return plan.completed(published)

    def for_site(self, name: str) -> tuple[Letter, ...]:
        return tuple(letter for letter in self.letters if letter.recipient == name)

    def joined(self, sums: int, absent: Collection[str] = ()) -> Block:
        block = self.set_up(sums, absent)
        for name in block.members:
            self.member(name).join(crossed(block.as_json()), self.for_site(name))
        return block

    def mask(self, block: Block, index: int, vectors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        weights = dict.fromkeys(block.members, 1 / len(block.members))
        uploads = {
            name: self.member(name).mask(index, vector, weights, TOLD) for name, vector in vectors.items()
        }
        self.uploads[block.id, index] = uploads
        return uploads

    def release(self, block: Block, index: int, survivors: Collection[str]) -> dict[str, Any]:
        """The answers of all survivors to one list."""
        listed = {"opened": [], "index": index, "survivors": sorted(survivors)}
        signatures = {name: self.member(name).sign(listed) for name in survivors} if self.pinned else None
        request = crossed({**listed, "signatures": signatures})
        answers = {name: crossed(self.member(name).release(request)) for name in survivors}
        self.releases[block.id, index] = answers
        return answers


@pytest.fixture
def federation(disk: Path) -> Callable[..., Federation]:
    def make(count: int, *, pinned: bool = False) -> Federation:
        return Federation(disk / f"{count}", tuple(f"site-{number:02d}" for number in range(count)), pinned)

    return make


def exact_sum(vectors: Iterable[np.ndarray]) -> np.ndarray:
    """Each coordinate rounded once."""
    return np.array([math.fsum(column) for column in zip(*vectors, strict=True)])


def subsets(names: Collection[str]) -> Iterable[tuple[str, ...]]:
    return chain.from_iterable(combinations(sorted(names), size) for size in range(len(names) + 1))


def released(answers: Mapping[str, Any], kind: str, owner: str) -> dict[str, bytes]:
    return {
        name: bytes.fromhex(answer[kind][owner]) for name, answer in answers.items() if owner in answer[kind]
    }


def nobody_is_open(block: Block, answers: Iterable[Mapping[str, Any]]) -> bool:
    """Whether for no member both secrets could be restored from all answers that were ever given for a sum."""
    tables = list(answers)
    for owner in block.members:
        known = [
            len({name for answer in tables for name in released(answer, kind, owner)}) >= block.threshold
            for kind in ("self", "pair")
        ]
        if all(known):
            return False
    return True


@pytest.mark.parametrize("count", range(2, 21))
def test_sums_are_within_the_bound(federation: Callable[..., Federation], count: int) -> None:
    sites = federation(count, pinned=count % 2 == 0)
    block = sites.joined(1)
    generator = np.random.default_rng(count)
    vectors = {name: generator.normal(scale=0.01, size=200) for name in sites.names}
    uploads = sites.mask(block, 0, vectors)
    total = open_sum(block, 0, uploads, sites.release(block, 0, sites.names), FIXED, TOLD)
    exact = [sum(map(Fraction, column), Fraction(0)) for column in zip(*vectors.values(), strict=True)]
    errors = [abs(Fraction(value) - truth) for value, truth in zip(total.tolist(), exact, strict=True)]
    assert max(errors) <= Fraction(FIXED.error_bound(count))
    truth = exact_sum(vectors.values())
    assert np.linalg.norm(total - truth) <= 1e-5 * np.linalg.norm(truth)


@pytest.mark.parametrize("count", [4, 7])
def test_a_million_parameters(federation: Callable[..., Federation], count: int) -> None:
    sites = federation(count)
    block = sites.joined(1)
    generator = np.random.default_rng(count)
    vectors = {name: generator.normal(scale=0.01, size=1_000_000) for name in sites.names}
    survivors = sites.names[1:]
    sites.mask(block, 0, vectors)
    uploads = {name: sites.uploads[block.id, 0][name] for name in survivors}
    total = open_sum(block, 0, uploads, sites.release(block, 0, survivors), FIXED, TOLD)
    truth = np.sum([vectors[name] for name in survivors], axis=0)
    assert np.abs(total - truth).max() <= FIXED.error_bound(count) + 1e-15
    assert np.linalg.norm(total - truth) <= 1e-5 * np.linalg.norm(truth)


@pytest.mark.parametrize("count", range(2, 7))
def test_every_dropout_pattern(federation: Callable[..., Federation], count: int) -> None:
    sites = federation(count)
    patterns = list(subsets(sites.names))
    needed = threshold(count)
    generator = np.random.default_rng(count)
    for number, survivors in enumerate(patterns):
        index = number % 16
        if index == 0:
            block = sites.joined(min(16, len(patterns) - number))
        vectors = {name: generator.normal(size=8) for name in survivors}
        uploads = sites.mask(block, index, vectors)
        if len(survivors) < needed:
            for name in survivors:
                with pytest.raises(ProtocolError, match=r"survivors? cannot open"):
                    sites.member(name).release(
                        {"opened": [], "index": index, "survivors": list(survivors), "signatures": None}
                    )
            with pytest.raises(QuorumError, match=r"masked uploads? arrived"):
                open_sum(block, index, uploads, {}, FIXED, TOLD)
            continue
        # What a survivor answers does not depend on who else answers, so one set of answers serves all patterns.
        answers = sites.release(block, index, survivors)
        assert nobody_is_open(block, [answers])
        for answering in subsets(survivors):
            partial = {name: answers[name] for name in answering}
            if len(answering) >= needed:
                total = open_sum(block, index, uploads, partial, FIXED, TOLD)
                assert np.abs(total - exact_sum(vectors.values())).max() <= FIXED.error_bound(count)
            else:
                with pytest.raises(QuorumError, match="released shares"):
                    open_sum(block, index, uploads, partial, FIXED, TOLD)


def test_five_hundred_patterns_of_up_to_twenty_sites(disk: Path) -> None:
    generator = np.random.default_rng(0)
    outcomes = {True: 0, False: 0}
    for count in range(2, 21):
        needed = threshold(count)
        sites = Federation(disk / f"{count}", tuple(f"site-{number:02d}" for number in range(count)))
        patterns = 5 if count > 9 else 55 + (count < 7)  # what many sites do costs more time
        for number in range(patterns):
            index = number % 14
            if index == 0:
                block = sites.joined(min(14, patterns - number))
            # Around the threshold in both phases, where a mistake would show.
            surviving = int(np.clip(needed + generator.integers(-1, 3), 0, count))
            survivors = sorted(generator.choice(sites.names, surviving, replace=False).tolist())
            answering = max(0, surviving - int(generator.integers(0, 3)))
            vectors = {name: generator.normal(size=4) for name in survivors}
            uploads = sites.mask(block, index, vectors)
            outcomes[answering >= needed] += 1
            if surviving < needed:
                with pytest.raises(QuorumError):
                    open_sum(block, index, uploads, {}, FIXED, TOLD)
                continue
            helpers = generator.choice(survivors, answering, replace=False).tolist()
            request = {"opened": [], "index": index, "survivors": survivors, "signatures": None}
            answers = {name: sites.member(name).release(request) for name in helpers}
            assert nobody_is_open(block, [answers])
            if answering >= needed:
                total = open_sum(block, index, uploads, answers, FIXED, TOLD)
                assert np.abs(total - exact_sum(vectors.values())).max() <= FIXED.error_bound(count)
            else:
                with pytest.raises(QuorumError):
                    open_sum(block, index, uploads, answers, FIXED, TOLD)
    assert sum(outcomes.values()) == 500
    assert min(outcomes.values()) > 100


def unmasked(
    block: Block, index: int, target: str, upload: np.ndarray, alone: bytes, secret: bytes, of: int
) -> np.ndarray:
    """An attack: one upload without its masks, if `secret` is the κ with which the target masked it.

    Args:
        alone: b of the target for this sum.
        secret: κ of the target for sum `of`.
    """
    slot = block.slot(index)
    private = mask_key(secret, block.slot(of), target)
    added, subtracted = [self_key(alone, slot, target)], []
    for peer, keys in block.members.items():
        if peer == target:
            continue
        key = pair_key(private, keys.mask_keys[index], slot, target, peer, TOLD)
        (added if target < peer else subtracted).append(key)
    return FIXED.decode(masked(upload, added=subtracted, subtracted=added))


def restored(block: Block, answers: Mapping[str, Any], kind: str, owner: str) -> bytes | None:
    shares = released(answers, kind, owner)
    if len(shares) < block.threshold:
        return None
    ranks = block.plan.ranks
    return combine_shares({ranks[name]: shares[name] for name in sorted(shares)[: block.threshold]})


def test_a_transcript_with_dropouts_opens_no_single_update(federation: Callable[..., Federation]) -> None:
    sites = federation(5)
    block = sites.joined(12)
    generator = np.random.default_rng(5)
    held = {name: sites.member(name)._vault.load() for name in sites.names}
    stolen = {name: dict(entry.secrets) for name, entry in held.items() if entry is not None}
    vectors: dict[int, dict[str, np.ndarray]] = {}
    for index in range(12):
        dropped = sites.names[index % 5]
        vectors[index] = {name: generator.normal(size=50) for name in sites.names}
        everyone = sites.mask(
            block, index, vectors[index]
        )  # the late upload arrives after all, at the server
        survivors = [name for name in sites.names if name != dropped]
        open_sum(
            block,
            index,
            {n: everyone[n] for n in survivors},
            sites.release(block, index, survivors),
            FIXED,
            TOLD,
        )
    opened, attempts = 0, 0
    for index in range(12):
        answers = sites.releases[block.id, index]
        for target in sites.names:
            upload = sites.uploads[block.id, index][target]
            alone = restored(block, answers, "self", target)
            own = restored(block, answers, "pair", target)
            assert (alone is None) != (own is None)
            # The secret that a dropout revealed in one sum, used on every other sum.
            for other in range(12):
                secret = restored(block, sites.releases[block.id, other], "pair", target)
                if alone is not None and secret is not None:
                    found = unmasked(block, index, target, upload, alone, secret, other)
                    attempts += 1
                    opened += bool(np.allclose(found, vectors[index][target], atol=1e-6))
            # With κ of this very sum, from the site's disk before the sum, the attack succeeds: it is a real one.
            if alone is not None:
                true_secret = stolen[target][index][0]
                found = unmasked(block, index, target, upload, alone, true_secret, index)
                assert np.allclose(found, vectors[index][target], atol=1e-6)
    assert attempts > 100
    assert opened == 0


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("count", [4, 6, 9])
def test_two_lists_of_survivors_open_nobody(
    federation: Callable[..., Federation], count: int, pinned: bool
) -> None:
    """The server tells some that a site dropped, and others that it did not."""
    sites = federation(count, pinned=pinned)
    block = sites.joined(count)
    target = sites.names[-1]
    everyone, without = list(sites.names), list(sites.names[:-1])
    for index, told_everyone in enumerate(range(count)):
        sites.mask(block, index, {name: np.ones(4) for name in sites.names})
        lists = {name: everyone if place < told_everyone else without for place, name in enumerate(without)}
        lists[target] = everyone
        signatures: dict[str, str] | None = None
        if pinned:
            signatures = {
                name: sites.member(name).sign({"opened": [], "index": index, "survivors": lists[name]})
                for name in everyone
            }
        answers: dict[str, Any] = {}
        for name in everyone:
            request = {"opened": [], "index": index, "survivors": lists[name], "signatures": signatures}
            agreeing = sum(lists[peer] == lists[name] for peer in everyone)
            if pinned and agreeing < block.threshold:
                with pytest.raises(ProtocolError, match=r"survivors? signed what"):
                    sites.member(name).release(request)
            else:
                answers[name] = sites.member(name).release(request)
            other = without if lists[name] == everyone else everyone
            with pytest.raises(ProtocolError, match=r"told other survivors|is not among|survivors? signed"):
                sites.member(name).release({**request, "survivors": other})
        assert nobody_is_open(block, [answers])


def test_swapped_keys_pass_only_without_a_roster(
    federation: Callable[..., Federation], tmp_path: Path
) -> None:
    server = Identity.at(tmp_path / "server")
    for pinned in (True, False):
        sites = federation(4 + pinned, pinned=pinned)
        victim, peer = sites.names[:2]
        asked = {name: PublicIdentity.from_json(sites.member(name).keys(), name) for name in sites.names}
        plan = Block.planned(RUN, 1, {**asked, peer: server.public})
        if pinned:
            with pytest.raises(
                ProtocolError, match=f"the keys of {peer} are not those in the roster of {victim}"
            ):
                sites.member(victim).set_up(plan.as_json())
            continue
        # Without a roster the server can take a peer's place and read what was meant for it: it is trusted here.
        _, letters = sites.member(victim).set_up(plan.as_json())
        (letter,) = (letter for letter in letters if letter.recipient == peer)
        context = canonical("shares", RUN, plan.id, 1, *plan.asked_names, victim, peer)
        assert len(server.open_from(asked[victim], context, letter.body)) == 32
        with pytest.raises(ProtocolError):
            sites.identity(peer).open_from(asked[victim], context, letter.body)


def test_other_members_for_other_sites_open_nothing_with_a_roster(
    federation: Callable[..., Federation],
) -> None:
    sites = federation(6, pinned=True)
    block = sites.set_up(1)
    less = {name: keys for name, keys in block.as_json()["members"].items() if name != sites.names[-1]}
    for place, name in enumerate(sites.names):
        request = {"block": block.id, "members": less} if place < 3 else block.as_json()
        sites.member(name).join(request, sites.for_site(name))
    survivors = list(sites.names[:-1])
    for place, name in enumerate(sites.names):
        members = less if place < 3 else block.members
        sites.member(name).mask(0, np.ones(4), dict.fromkeys(members, 1 / len(members)), TOLD)
    listed = {"opened": [], "index": 0, "survivors": survivors}
    signatures = {name: sites.member(name).sign(listed) for name in survivors}
    for name in survivors:
        with pytest.raises(
            ProtocolError, match=r"[23] survivors signed what this site was told, 5 are needed"
        ):
            sites.member(name).release({**listed, "signatures": signatures})


def test_other_weights_for_other_sites_open_nothing_with_a_roster(
    federation: Callable[..., Federation],
) -> None:
    sites = federation(4, pinned=True)
    block = sites.joined(1)
    even, uneven = dict.fromkeys(sites.names, 0.25), dict(zip(sites.names, (0.4, 0.2, 0.2, 0.2), strict=True))
    for place, name in enumerate(sites.names):
        weights, told = (even, TOLD) if place < 2 else (uneven, bytes(31) + b"1")
        sites.member(name).mask(0, np.ones(4), weights, told)
    listed = {"opened": [], "index": 0, "survivors": list(block.members)}
    signatures = {name: sites.member(name).sign(listed) for name in sites.names}
    for name in sites.names:
        with pytest.raises(ProtocolError, match="2 survivors signed"):
            sites.member(name).release({**listed, "signatures": signatures})


def test_requests_that_isolate_a_site_are_refused(federation: Callable[..., Federation]) -> None:
    sites = federation(6)
    sites.joined(3)
    victim = sites.names[0]
    alone = {name: 0.95 if name == victim else 0.01 for name in sites.names}
    with pytest.raises(ProtocolError, match=r"has 0\.950 of the weight"):
        sites.member(victim).mask(0, np.ones(4), alone, TOLD)
    sites.member(victim).mask(1, np.ones(4), dict.fromkeys(sites.names, 1 / 6), TOLD)
    with pytest.raises(ProtocolError, match="1 survivor cannot open a sum, 5 are needed"):
        sites.member(victim).release({"opened": [], "index": 1, "survivors": [victim], "signatures": None})
    with pytest.raises(ProtocolError, match="was masked or passed over before"):
        sites.member(victim).mask(1, np.zeros(4), dict.fromkeys(sites.names, 1 / 6), TOLD)


@pytest.mark.parametrize("other_block", [False, True])
def test_shares_of_another_sum_open_nothing(federation: Callable[..., Federation], other_block: bool) -> None:
    sites = federation(4)
    first = sites.joined(2)
    vectors = {name: np.ones(4) for name in sites.names}
    sites.mask(first, 0, vectors)
    old = sites.release(first, 0, sites.names)
    second = sites.joined(2) if other_block else first
    uploads = sites.mask(second, 1, vectors)
    with pytest.raises(
        ProtocolError, match="self shares of site-00 for sum 1 do not give what it committed to"
    ):
        open_sum(second, 1, uploads, old, FIXED, TOLD)


def test_members_who_never_prepared_are_done_without(federation: Callable[..., Federation]) -> None:
    sites = federation(7, pinned=True)
    block = sites.joined(1, absent=sites.names[:1])
    assert block.threshold == threshold(7) == 5
    vectors = {name: np.full(4, 0.5) for name in block.members}
    sites.mask(block, 0, vectors)
    survivors = sites.names[2:]
    uploads = {name: sites.uploads[block.id, 0][name] for name in survivors}
    assert open_sum(block, 0, uploads, sites.release(block, 0, survivors), FIXED, TOLD).tolist() == [2.5] * 4
    with pytest.raises(QuorumError, match="4 of 7 members prepared the block, 5 are needed"):
        sites.set_up(1, absent=sites.names[:3])


def test_uploads_look_like_chance_and_unlike_the_update(federation: Callable[..., Federation]) -> None:
    size = 400_000
    sites = federation(3)
    block = sites.joined(2)
    update = np.random.default_rng(0).normal(scale=0.01, size=size)
    vectors = dict.fromkeys(sites.names, update)
    uploads = [
        sites.mask(block, 0, vectors)["site-00"],
        sites.mask(block, 1, vectors)["site-00"],  # the same update again
    ]
    uploads.append(uploads[1] - uploads[0])

    def likelihood(words: np.ndarray) -> float:
        counts = np.stack(
            [np.bincount(column, minlength=256) for column in words.view(np.uint8).reshape(-1, 8).T]
        )
        return float(min(stats.chisquare(row).pvalue for row in counts))

    for words in uploads:
        assert likelihood(words) > 1e-7
        for number in (words.astype(np.float64), words.view(np.int64).astype(np.float64)):
            assert abs(np.corrcoef(number, update)[0, 1]) < 0.01
    assert likelihood(FIXED.encode(update)) < 1e-100  # the measure sees what is not masked


def test_every_breach_is_an_error_of_ours(federation: Callable[..., Federation]) -> None:
    sites = federation(3)
    sites.joined(1)
    member = sites.member("site-00")
    for value in (
        None,
        [],
        {},
        {"block": 1},
        {"opened": [], "index": None, "survivors": None, "signatures": None},
        "text",
        3,
    ):
        for call in (member.set_up, member.sign, member.release, lambda request: member.join(request, ())):
            with pytest.raises(FedtagError):
                call(value)
    assert public_bytes(mask_key(bytes(16), sites.joined(1).slot(0), "site-00"))
