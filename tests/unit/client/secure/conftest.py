"""A block of four members on disk, relayed by an honest server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fedtag.client.secure.member import Member
from fedtag.common.secure.block import Block, Plan
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.identity import Identity, PublicIdentity
from fedtag.common.wire.records import Letter

FIXED = FixedPoint(40, 1000.0)


def crossed(value: Any) -> Any:
    """What arrives at the other end of a JSON wire."""
    return json.loads(json.dumps(value, allow_nan=False))


@dataclass
class Sites:
    """Members that exist on disk only: each call meets a new object."""

    folder: Path
    names: tuple[str, ...]
    roster: Mapping[str, PublicIdentity] | None = None
    letters: list[Letter] = field(default_factory=list)

    def identity(self, name: str) -> Identity:
        return Identity.at(self.folder / name / "identity")

    def __getitem__(self, name: str) -> Member:
        workspace = self.folder / name / "secure"
        return Member(name, "run-1", workspace, self.identity(name), self.roster, FIXED)

    def stored(self, name: str) -> bytes:
        """All bytes of the run's folder at a site."""
        folder = self.folder / name / "secure" / "run-1"
        return b"\n".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())

    def plan(self, sums: int) -> Plan:
        asked = {name: PublicIdentity.from_json(self[name].keys(), name) for name in self.names}
        return Block.planned("run-1", sums, asked)

    def set_up(self, plan: Plan) -> Block:
        self.letters = []
        published = {}
        for name in self.names:
            reply, letters = self[name].set_up(crossed(plan.as_json()))
            published[name] = plan.accepted(name, crossed(reply))
            self.letters += letters
        return plan.completed(published)

    def for_site(self, name: str) -> list[Letter]:
        return [letter for letter in self.letters if letter.recipient == name]

    def joined(self, sums: int) -> Block:
        block = self.set_up(self.plan(sums))
        for name in self.names:
            assert self[name].join(crossed(block.as_json()), self.for_site(name)) == ()
        return block


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    return Sites(tmp_path, ("a", "b", "c", "d"))


@pytest.fixture
def sites_of(tmp_path: Path) -> Callable[..., Sites]:
    """Sites with other names, or with a roster of each other's keys."""

    def make(*names: str, roster: bool) -> Sites:
        made = Sites(tmp_path, names)
        if roster:
            made.roster = {name: made.identity(name).public for name in names}
        return made

    return make
