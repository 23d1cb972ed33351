"""What a member keeps on disk between the messages of a run, so that no message can be answered twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fedtag.client.secure.dealing import Pair
from fedtag.common.errors import ProtocolError
from fedtag.common.randomness import numpy_generator
from fedtag.common.secure.agreement import KEY_BYTES
from fedtag.common.secure.block import Block, Plan
from fedtag.common.secure.groups import Groups
from fedtag.common.secure.identity import PublicIdentity
from fedtag.common.secure.masks import SECRET_BYTES
from fedtag.common.secure.member_keys import DIGEST_BYTES, DRAW_BYTES, MemberKeys
from fedtag.common.secure.private_file import private_folder, replace_private

VAULT_FILE = "vault.json"
LOCK_FILE = "vault.lock"
OPENED_FILE = "opened.json"
DRAW_FILE = "draw"
GROUPS_FILE = "groups.json"
LOCK_SECONDS = 60.0


@dataclass(frozen=True, repr=False)
class Holdings:
    """All that a member holds of a block. Sums that are over have left no secrets in it.

    Args:
        plan: of the block.
        own: what this member published.
        secrets: its own κ and b, by sum, as long as they have not served.
        shares: by sum and owner, the shares of (κ, b) that this member holds, its own ones included.
        block: the members, once joined.
        joined: SHA-256 of what it joined with.
        masked: the last sum for which it masked a vector; −1 before the first.
        weights: those of the last sum.
        signed: the survivors that it signed for the last sum.
        released: the survivors for which it released shares of the last sum.
        occasion: what the last sum was for; empty if its vector will never be part of another one.
        told: digest of what it was asked for, in hexadecimal.
        groups: those whose sums are opened one by one; none if the last sum is one over all.
    """

    plan: Plan
    own: MemberKeys
    secrets: Mapping[int, Pair]
    shares: Mapping[int, Mapping[str, Pair]]
    block: Block | None = None
    joined: str = ""
    masked: int = -1
    weights: Mapping[str, float] = field(default_factory=dict)
    signed: tuple[str, ...] | None = None
    released: tuple[str, ...] | None = None
    occasion: str = ""
    told: str = ""
    groups: Groups = ()

    def after_mask(
        self, index: int, weights: Mapping[str, float], occasion: str, told: str, groups: Groups
    ) -> Holdings:
        """With a sum begun: its own secrets have served, and shares of earlier sums are of no more use."""
        return replace(
            self,
            secrets={number: pair for number, pair in self.secrets.items() if number > index},
            shares={number: table for number, table in self.shares.items() if number >= index},
            masked=index,
            weights=weights,
            signed=None,
            released=None,
            occasion=occasion,
            told=told,
            groups=groups,
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, secrets included; keys of one kind stand in one row, which is quickly read."""
        return {
            "block": self.plan.id,
            "sums": self.plan.sums,
            "asked": {name: [one.seal.hex(), one.sign.hex()] for name, one in self.plan.asked.items()},
            "own": _row(self.own),
            "secrets": {str(number): b"".join(pair).hex() for number, pair in self.secrets.items()},
            "shares": {
                str(number): {owner: b"".join(pair).hex() for owner, pair in table.items()}
                for number, table in self.shares.items()
            },
            "members": None
            if self.block is None
            else {name: _row(keys) for name, keys in self.block.members.items()},
            "joined": self.joined,
            "masked": self.masked,
            "weights": dict(self.weights),
            "signed": self.signed,
            "released": self.released,
            "occasion": self.occasion,
            "told": self.told,
            "groups": self.groups,
            "draws": dict(self.plan.draws),
        }

    @classmethod
    def from_json(cls, run: str, name: str, value: Any) -> Holdings:
        """The inverse of `as_json`.

        Args:
            run: whose holdings they are.
            name: of the member.
        """
        asked = {
            peer: PublicIdentity(bytes.fromhex(seal), bytes.fromhex(sign))
            for peer, (seal, sign) in value["asked"].items()
        }
        plan = Plan(run, value["block"], value["sums"], asked, value["draws"])
        members = value["members"]
        return cls(
            plan,
            _keys(asked[name], value["own"]),
            {int(number): _pair(pair) for number, pair in value["secrets"].items()},
            {
                int(number): {owner: _pair(pair) for owner, pair in table.items()}
                for number, table in value["shares"].items()
            },
            None
            if members is None
            else Block(plan, {peer: _keys(asked[peer], row) for peer, row in members.items()}),
            value["joined"],
            value["masked"],
            value["weights"],
            _names(value["signed"]),
            _names(value["released"]),
            value["occasion"],
            value["told"],
            tuple(tuple(group) for group in value["groups"]),
        )


@dataclass(frozen=True)
class History:
    """The groups of a run, drawn once, and over whom sums were opened, each set of members once."""

    groups: Groups = ()
    opened: Groups = ()


class Vault:
    """The holdings of a member in one run, one file that only its owner can read.

    Every write replaces the file and is on disk before it returns. Blocks on the disk that held an old version
    are freed, not overwritten: where others could read raw disks, the workspace belongs on an encrypted one.

    Args:
        folder: of the run, in the site's workspace.
        name: of the member.
        seed: of a simulation, see `Site`.
    """

    def __init__(self, folder: Path, name: str, seed: int | None = None) -> None:
        self._folder = folder
        self._name = name
        self._seed = seed

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from answering a message of the run, which might contradict this one's answer.

        Raises:
            ProtocolError: another process has been answering for a minute.
        """
        private_folder(self._folder)
        lock = FileLock(self._folder / LOCK_FILE, timeout=LOCK_SECONDS)
        try:
            lock.acquire()
        except Timeout as error:
            raise ProtocolError(
                "another message of this run is being answered: send them one by one"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def load(self) -> Holdings | None:
        """What was saved last; None before the first block.

        Raises:
            ProtocolError: the file is damaged.
        """
        path = self._folder / VAULT_FILE
        if not path.exists():
            return None
        try:
            return Holdings.from_json(self._folder.name, self._name, json.loads(path.read_bytes()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ProtocolError) as error:
            raise ProtocolError(
                f"{VAULT_FILE} of this run is damaged at {self._name}: delete it there, and the site takes part "
                "again from the next block"
            ) from error

    def save(self, holdings: Holdings) -> None:
        """Replace what was saved; nothing of the former content stays in the folder."""
        replace_private(self._folder / VAULT_FILE, json.dumps(holdings.as_json(), allow_nan=False).encode())

    def draw(self) -> bytes:
        """The member's part of the seed by which groups are drawn: one a run, whoever asks for it and how often."""
        if self._seed is not None:
            return numpy_generator(self._seed, self._name, "draw").bytes(DRAW_BYTES)
        path = self._folder / DRAW_FILE
        if not path.exists():
            private_folder(self._folder)
            replace_private(path, os.urandom(DRAW_BYTES))
        return path.read_bytes()

    def history(self) -> History:
        """The groups of the run and over whom their sums were opened, as far as this member knows.

        Raises:
            ProtocolError: the file is damaged.
        """
        path = self._folder / GROUPS_FILE
        if not path.exists():
            return History()
        try:
            value = json.loads(path.read_bytes())
            return History(*(tuple(tuple(group) for group in value[name]) for name in ("groups", "opened")))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ProtocolError(
                f"{GROUPS_FILE} of this run is damaged at {self._name}: start a new run"
            ) from error

    def remember(self, history: History) -> None:
        """Write the groups and what was opened of them, before any answer leaves."""
        text = json.dumps({"groups": history.groups, "opened": history.opened})
        replace_private(self._folder / GROUPS_FILE, text.encode())

    def note_opened(self, occasion: str, parts: str) -> bool:
        """Write down over whom the sum of an occasion may be opened; it stays when blocks are forgotten.

        Returns:
            False if the same occasion was opened over others before.

        Raises:
            ProtocolError: the file is damaged.
        """
        path = self._folder / OPENED_FILE
        try:
            opened = json.loads(path.read_bytes()) if path.exists() else {}
            before = opened.setdefault(occasion, parts)
        except (ValueError, AttributeError, RecursionError) as error:
            raise ProtocolError(
                f"{OPENED_FILE} of this run is damaged at {self._name}: start a new run"
            ) from error
        if before == parts:
            replace_private(path, json.dumps(opened).encode())
        return bool(before == parts)


def _row(keys: MemberKeys) -> list[str]:
    return [b"".join(column).hex() for column in (keys.mask_keys, keys.commitments, (keys.draw,))]


def _keys(identity: PublicIdentity, row: list[str]) -> MemberKeys:
    mask_keys, commitments = (
        tuple(packed[start : start + size] for start in range(0, len(packed), size))
        for packed, size in zip(map(bytes.fromhex, row[:2]), (KEY_BYTES, DIGEST_BYTES), strict=True)
    )
    return MemberKeys(identity, mask_keys, commitments, bytes.fromhex(row[2]))


def _pair(value: str) -> Pair:
    both = bytes.fromhex(value)
    return both[:SECRET_BYTES], both[SECRET_BYTES:]


def _names(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)
