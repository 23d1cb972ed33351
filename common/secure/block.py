"""A block of sums that one set-up prepares: who was asked, and the keys of those who answered."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fedtag.common.errors import ProtocolError, QuorumError
from fedtag.common.secure.agreement import check_exchangeable
from fedtag.common.secure.canonical import canonical, from_hex
from fedtag.common.secure.groups import draw_commitment
from fedtag.common.secure.identity import PublicIdentity
from fedtag.common.secure.masks import Slot
from fedtag.common.secure.member_keys import MemberKeys, check_name, member_table
from fedtag.common.secure.shares import ranks, threshold

MOST_SUMS = 1000
ID_BYTES = 16


@dataclass(frozen=True)
class Plan:
    """A block that members are asked to prepare.

    Args:
        run: the run.
        id: 32 hexadecimal digits that no other block has.
        sums: how many sums it is for, 1 to 1000; they are numbered from 0.
        asked: the members asked, at least 2, no two with a key in common.
        draws: what they committed to draw groups by, SHA-256 in hexadecimal; empty where there are none.

    Raises:
        ProtocolError: one of these does not hold.
    """

    run: str
    id: str
    sums: int
    asked: Mapping[str, PublicIdentity]
    draws: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from_hex(self.id, ID_BYTES, "the identifier of a block")
        _check_sums(self.sums)
        threshold(len(self.asked))
        owners: dict[bytes, str] = {}
        for name, identity in self.asked.items():
            check_name(name)
            for key in (identity.seal, identity.sign):
                if key in owners:
                    raise ProtocolError(
                        f"{owners[key]} and {name} have the same key: every site needs an identity of its own"
                    )
                owners[key] = name
        if self.draws and (not isinstance(self.draws, dict) or self.draws.keys() != self.asked.keys()):
            raise ProtocolError("every member of a block must have committed to its draw: ask for keys again")

    @property
    def threshold(self) -> int:
        """How many members a sum needs, from first to last."""
        return threshold(len(self.asked))

    @property
    def asked_names(self) -> tuple[str, ...]:
        """The members asked, in order of rank."""
        return tuple(sorted(self.asked))

    @property
    def ranks(self) -> dict[str, int]:
        """The index of each member's shares."""
        return ranks(self.asked)

    def as_json(self) -> dict[str, Any]:
        """The request to set up."""
        members = {name: identity.as_json() for name, identity in sorted(self.asked.items())}
        return {
            "block": self.id,
            "sums": self.sums,
            "members": members,
            "draws": dict(sorted(self.draws.items())),
        }

    @classmethod
    def from_json(cls, run: str, value: Any) -> Plan:
        """The inverse of `as_json`, of a request that anybody may have written.

        Raises:
            ProtocolError: it has another form, or asks for something impossible.
        """
        table = request_table(value, {"block", "sums", "members", "draws"}, "set up")
        from_hex(table["block"], ID_BYTES, "the identifier of a block")
        _check_sums(table["sums"])
        members = member_table(table["members"])
        return cls(
            run,
            table["block"],
            table["sums"],
            {name: PublicIdentity.from_json(entry, name) for name, entry in members.items()},
            table["draws"],
        )

    def accepted(self, name: str, reply: Any) -> MemberKeys:
        """What an asked member published, checked so that no other member can stumble over it.

        Raises:
            ProtocolError: it was not asked, or what it sent is unusable; the block can go on without it.
        """
        if name not in self.asked:
            raise ProtocolError(f"{name} was not asked to prepare this block: it can join the next one")
        keys = MemberKeys.from_reply(self.asked[name], reply, self.sums, name)
        for key in keys.mask_keys:
            check_exchangeable(key, name)
        self.check_draw(name, keys)
        return keys

    def check_draw(self, name: str, keys: MemberKeys) -> None:
        """Refuse a draw that is not the one that a member committed to.

        Raises:
            ProtocolError: naming it.
        """
        if self.draws and draw_commitment(self.run, name, keys.draw) != self.draws[name]:
            raise ProtocolError(f"the draw of {name} is not the one it committed to: leave it out")

    def completed(self, members: Mapping[str, MemberKeys]) -> Block:
        """The block of those who answered.

        Raises:
            QuorumError: too few of those who were asked.
        """
        if len(members) < self.threshold:
            missing = ", ".join(sorted(set(self.asked) - set(members)))
            raise QuorumError(
                f"{len(members)} of {len(self.asked)} members prepared the block, {self.threshold} are needed: "
                f"bring back {missing}, or ask fewer"
            )
        return Block(self, dict(sorted(members.items())))


@dataclass(frozen=True)
class Block:
    """A block of sums and its members, all of whom mask against all others.

    Args:
        plan: what was asked for.
        members: those who prepared it, at least `threshold`.
    """

    plan: Plan
    members: Mapping[str, MemberKeys]

    @staticmethod
    def planned(
        run: str, sums: int, asked: Mapping[str, PublicIdentity], draws: Mapping[str, str] | None = None
    ) -> Plan:
        """A new block to ask for, with an identifier of its own.

        Raises:
            ProtocolError: see Plan.
        """
        return Plan(run, secrets.token_hex(ID_BYTES), sums, dict(sorted(asked.items())), dict(draws or {}))

    @property
    def run(self) -> str:
        """The run."""
        return self.plan.run

    @property
    def id(self) -> str:
        """The block's identifier."""
        return self.plan.id

    @property
    def sums(self) -> int:
        """How many sums it is for."""
        return self.plan.sums

    @property
    def threshold(self) -> int:
        """How many members a sum needs, from first to last."""
        return self.plan.threshold

    def as_json(self) -> dict[str, Any]:
        """The request to join."""
        return {"block": self.id, "members": {name: keys.as_json() for name, keys in self.members.items()}}

    @classmethod
    def from_json(cls, plan: Plan, value: Any) -> Block:
        """The inverse of `as_json`, of a request that anybody may have written.

        Raises:
            ProtocolError: it has another form, is about another block, has members that were not asked or
                other keys than when they were, or too few of them.
        """
        table = request_table(value, {"block", "members"}, "join")
        if table["block"] != plan.id:
            raise ProtocolError("the block to join is not the one prepared last: ask for set-up first")
        members: dict[str, MemberKeys] = {}
        for name, entry in sorted(member_table(table["members"]).items()):
            members[name] = MemberKeys.from_json(entry, plan.sums, name)
            if plan.asked.get(name) != members[name].identity:
                raise ProtocolError(
                    f"{name} has other keys than at set-up, or was not asked: plan a new block"
                )
            plan.check_draw(name, members[name])
        if len(members) < plan.threshold:
            raise ProtocolError(
                f"{len(members)} of {len(plan.asked)} members are too few for a sum, {plan.threshold} are needed: "
                "plan a new block"
            )
        return cls(plan, members)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over the run, the block, its threshold, who was asked, and all keys of all members."""
        asked = self.plan.asked_names
        parts: list[str | int | bytes] = [self.run, self.id, self.threshold, self.sums, len(asked), *asked]
        for name, keys in sorted(self.members.items()):
            parts += [
                name,
                keys.identity.seal,
                keys.identity.sign,
                *keys.mask_keys,
                *keys.commitments,
                keys.draw,
            ]
        return hashlib.sha256(canonical("block", *parts)).digest()

    def slot(self, index: Any) -> Slot:
        """One sum of the block.

        Raises:
            ProtocolError: there is no such sum.
        """
        if type(index) is not int or not 0 <= index < self.sums:
            raise ProtocolError(f"sum {index!r:.40} is not in the block, whose sums are 0 to {self.sums - 1}")
        return Slot(self.run, self.id, index)


def request_table(value: Any, keys: set[str], what: str) -> dict[str, Any]:
    """A request with exactly these keys.

    Raises:
        ProtocolError: it is something else.
    """
    if not isinstance(value, dict) or set(value) != keys:
        raise ProtocolError(
            f"a request to {what} has {', '.join(sorted(keys))}; the server needs the same fedtag"
        )
    return value


def _check_sums(sums: Any) -> None:
    if type(sums) is not int or not 1 <= sums <= MOST_SUMS:
        raise ProtocolError(f"a block of {sums!r:.40} sums: it must have 1 to {MOST_SUMS}")
