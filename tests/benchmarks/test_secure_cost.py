"""What secure summation costs a client, and the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import pytest

from fedtag.client.secure.member import Member
from fedtag.common.secure.block import Block
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.identity import Identity
from fedtag.common.wire.records import Letter
from fedtag.server.strategies.secure import open_sum

pytestmark = pytest.mark.benchmark

T = TypeVar("T")

FIXED = FixedPoint(40, 1024.0)
TOLD = bytes(32)
MOST_SECONDS_A_SUM = 0.5
MOST_SECONDS_OF_SET_UP = 2.0


class Clock:
    """CPU seconds by what was done."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def timed(self, what: str, work: Callable[..., T], *arguments: object) -> T:
        before = time.process_time()
        result = work(*arguments)
        self.seconds.setdefault(what, []).append(time.process_time() - before)
        return result

    def typical(self, what: str) -> float:
        return median(self.seconds[what])


def prepared(folder: Path, count: int, sums: int, clock: Clock) -> tuple[dict[str, Member], Block]:
    """Members who joined a block; what set-up and join take is noted."""
    names = [f"site-{number:02d}" for number in range(count)]
    identities = {name: Identity.at(folder / name / "identity") for name in names}
    members = {
        name: Member(name, "run-1", folder / name / "secure", one, None, FIXED)
        for name, one in identities.items()
    }
    plan = Block.planned("run-1", sums, {name: one.public for name, one in identities.items()})
    letters: list[Letter] = []
    published = {}
    for name, member in members.items():
        reply, own = clock.timed("set up", member.set_up, plan.as_json())
        published[name] = clock.timed("accept", plan.accepted, name, reply)
        letters += own
    block = plan.completed(published)
    for name, member in members.items():
        mine = [letter for letter in letters if letter.recipient == name]
        clock.timed("join", member.join, block.as_json(), mine)
    return members, block


def test_a_sum_of_a_million_parameters_over_ten_clients(tmp_path: Path) -> None:
    clock = Clock()
    members, block = prepared(tmp_path, 10, 20, clock)
    weights = dict.fromkeys(members, 0.1)
    vector = np.random.default_rng(0).normal(scale=0.01, size=1_000_000)
    for index, dropped in enumerate((0, 2)):
        survivors = list(members)[dropped:]
        uploads = {
            name: clock.timed("mask", members[name].mask, index, vector, weights, TOLD) for name in survivors
        }
        request = {"opened": [], "index": index, "survivors": survivors, "signatures": None}
        releases = {name: clock.timed("release", members[name].release, request) for name in survivors}
        total = clock.timed(
            f"open, {dropped} dropped", open_sum, block, index, uploads, releases, FIXED, TOLD
        )
        assert np.allclose(total, len(survivors) * vector, atol=1e-9)
    print("\n1e6 parameters, 10 clients, CPU seconds")  # noqa: T201
    for what in ("mask", "release", "open, 0 dropped", "open, 2 dropped"):
        print(f"  {what:<20}{clock.typical(what):8.3f}")  # noqa: T201
    assert clock.typical("mask") + clock.typical("release") <= MOST_SECONDS_A_SUM


def test_two_hundred_sums_for_twenty_clients(tmp_path: Path) -> None:
    clock = Clock()
    prepared(tmp_path, 20, 200, clock)
    print("\nset-up of 200 sums, 20 clients, CPU seconds each")  # noqa: T201
    for what in ("set up", "join", "accept"):
        print(f"  {what:<20}{clock.typical(what):8.3f}")  # noqa: T201
    assert clock.typical("set up") + clock.typical("join") <= MOST_SECONDS_OF_SET_UP
