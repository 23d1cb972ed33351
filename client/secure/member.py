"""A site's part in sums that hide its updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedtag.client.secure.admission import admit
from fedtag.client.secure.balance import checked_weights, parts_digest
from fedtag.client.secure.dealing import content_digest, deal, received
from fedtag.client.secure.grouping import masked_by_group, own_group, remember_opened
from fedtag.client.secure.survivors import listed, told_survivors
from fedtag.client.secure.vault import Holdings, Vault
from fedtag.client.site.state import check_run
from fedtag.common.errors import ProtocolError
from fedtag.common.secure.block import Block, Plan, request_table
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.groups import Groups, draw_commitment
from fedtag.common.secure.identity import Identity, PublicIdentity
from fedtag.common.secure.masks import mask_key, pair_key, self_key
from fedtag.common.secure.statement import check_signatures, statement
from fedtag.common.wire.records import Letter


class Member:
    """One site in the secure sums of one run (Bonawitz et al., 2017; masks of every sum are independent).

    Each call may come in a new process: whatever must last is on disk before anything is returned. Every
    request is checked as if the server wanted to learn an update.

    Args:
        name: of the site.
        run: the run's identifier.
        workspace_folder: of the site; the run gets a folder in it.
        identity: of the site.
        roster: the keys of all sites, as their operators exchanged them; None if the server is trusted to relay
            keys and lists truthfully.
        fixed: how vectors are encoded, the same at all sites.
        seed: of a simulation, see `Site`.

    Raises:
        ProtocolError: the run has no proper identifier.
    """

    def __init__(
        self,
        name: str,
        run: str,
        workspace_folder: Path,
        identity: Identity,
        roster: Mapping[str, PublicIdentity] | None,
        fixed: FixedPoint,
        seed: int | None = None,
    ) -> None:
        check_run(run, ProtocolError)
        self.name = name
        self.run = run
        self.identity = identity
        self.roster = roster
        self.fixed = fixed
        self._vault = Vault(workspace_folder / run, name, seed)

    def keys(self) -> dict[str, str]:
        """The site's public keys, for the table from which a block is planned."""
        return self.identity.public.as_json()

    def draw(self) -> str:
        """What the site commits to for the drawing of groups, before it knows what others committed to."""
        with self._vault.alone():
            return draw_commitment(self.run, self.name, self._vault.draw())

    def set_up(self, request: Any) -> tuple[dict[str, Any], tuple[Letter, ...]]:
        """Draw the secrets of a new block and deal their shares; an older block is forgotten.

        Args:
            request: {"block": 32 hexadecimal digits, "sums": count, "members": {name: {"seal", "sign"}}}.

        Returns:
            {"mask_keys": [...], "commitments": [...]}, one a sum, and a sealed letter to every other member.

        Raises:
            ProtocolError: the request has another form, names this block again, or has keys that are not those
                of this site or of the roster.
        """
        plan = Plan.from_json(self.run, request)
        admit(plan, self.name, self.identity.public, self.roster, self.fixed)
        with self._vault.alone():
            before = self._vault.load()
            if before is not None and before.plan.id == plan.id:
                raise ProtocolError(f"block {plan.id} was set up before: plan a new one")
            # By now all have committed to theirs.
            draw = self._vault.draw() if plan.draws else b""
            if plan.draws and plan.draws[self.name] != draw_commitment(self.run, self.name, draw):
                raise ProtocolError(
                    f"the block has another draw of {self.name} than its own: ask for its keys again"
                )
            dealt = deal(plan, self.name, self.identity, draw)
            shares = {index: {self.name: pair} for index, pair in enumerate(dealt.kept)}
            self._vault.save(Holdings(plan, dealt.keys, dict(enumerate(dealt.secrets)), shares))
        return dealt.keys.published(), dealt.letters

    def join(self, request: Any, letters: Sequence[Letter]) -> tuple[str, ...]:
        """Learn who is in the block, and keep the shares that the others dealt to this site.

        The same request with the same letters changes nothing; any other one is refused.

        Args:
            request: {"block", "members": {name: {"seal", "sign", "mask_keys", "commitments"}}}.
            letters: those for this site.

        Returns:
            The members whose letter is missing or unreadable: this site cannot help to open their secrets.

        Raises:
            ProtocolError: the request has another form, has too few members, or contradicts the set-up.
        """
        with self._vault.alone():
            held = self._held()
            block = Block.from_json(held.plan, request)
            if block.members.get(self.name) != held.own:
                raise ProtocolError(
                    f"the block has other keys of {self.name} than it published: plan a new block"
                )
            joined = content_digest(block, letters)
            if held.block is not None and held.joined != joined:
                raise ProtocolError(f"block {block.id} was joined with other members, keys or letters before")
            if held.block is None:
                shares = {index: dict(table) for index, table in held.shares.items()}
                for peer, pairs in received(block, self.name, self.identity, letters).items():
                    for index, pair in enumerate(pairs):
                        shares[index][peer] = pair
                held = replace(held, block=block, joined=joined, shares=shares)
                self._vault.save(held)
            present = {peer for table in held.shares.values() for peer in table}
        return tuple(sorted(set(block.members) - present))

    def mask(
        self,
        index: int,
        vector: NDArray[np.float64],
        weights: Any,
        told: bytes,
        occasion: str = "",
        most: float = 1.0,
        groups: Groups = (),
        head: int | None = None,
    ) -> NDArray[np.uint64]:
        """This site's upload for one sum: its encoded vector under the masks of that sum.

        The secrets behind the masks are erased before it is returned, and the shares of earlier sums with
        them. A sum is masked once, and none before it afterwards: two vectors under the same masks would
        show their difference.

        Args:
            index: which sum of the block.
            vector: what this site adds, already multiplied by its weight.
            weights: {member: weight}, of all members of the block.
            told: digest of what the server asked for. Masks between members that were asked for different things do not
                cancel, and with a roster survivors sign it: a server that asks all but one for nothing, or each for
                something else, could otherwise read single updates from the sum.
            occasion: what the sum is for, such as a round's phase. A repeated round trains the same update again;
                two sums of it over different members would differ by what is to stay hidden. Empty if the vector
                will not be part of another sum.
            most: the largest weight that one member may have, see `checked_weights`.
            groups: a partition whose groups are summed apart, the same in all of a run; none for one sum over all.
            head: the first coordinates, which are summed by group; those after them are summed over all.

        Raises:
            ProtocolError: the sum was masked or passed over before, or a weight would isolate a member.
            DivergenceError: the vector is not finite or beyond the limit.
        """
        with self._vault.alone():
            held, block = self._joined()
            slot = block.slot(index)
            if index <= held.masked:
                raise ProtocolError(
                    f"sum {index} was masked or passed over before, after it only later ones can be"
                )
            table = checked_weights(weights, block.members, most, groups)
            own = own_group(self.name, block, groups, self._vault)
            secret, alone = held.secrets[index]
            private = mask_key(secret, slot, self.name)
            keys = {
                peer: pair_key(private, theirs.mask_keys[index], slot, self.name, peer, told)
                for peer, theirs in block.members.items()
                if peer != self.name
            }
            encoded = self.fixed.encode(np.asarray(vector, np.float64))
            upload = masked_by_group(encoded, self.name, self_key(alone, slot, self.name), keys, own, head)
            self._vault.save(held.after_mask(index, table, occasion, told.hex(), groups))
        return upload

    def sign(self, request: Any) -> str:
        """A signature of the list of survivors of the sum masked last; one list a sum.

        Args:
            request: {"index", "survivors": [name, ...], "opened": [[name, ...], ...]}.

        Raises:
            ProtocolError: another sum, another list than before, or one over which the sum may not be opened.
        """
        with self._vault.alone():
            held, block = self._joined()
            table = request_table(request, {"index", "survivors", "opened"}, "sign")
            survivors, opened = told_survivors(self.name, held, block, table, self._vault)
            self._vault.save(replace(held, signed=listed(survivors, opened)))
            return self.identity.sign(_statement(held, block, survivors, opened)).hex()

    def release(self, request: Any) -> dict[str, dict[str, str]]:
        """The shares with which the sum masked last can be opened, for one list of survivors only.

        Of a survivor whose sum is opened the share of b, of any other member that of κ: never both, for both together
        would unmask its upload.

        Args:
            request: {"index", "survivors": [name, ...], "opened": groups of these, or none for one sum over all,
                "signatures": {survivor: signature} or None}.

        Returns:
            {"self": {opened survivor: share of b}, "pair": {other member: share of κ}}.

        Raises:
            ProtocolError: as for `sign`; with a roster also if too few survivors signed the same.
        """
        with self._vault.alone():
            held, block = self._joined()
            table = request_table(request, {"index", "survivors", "opened", "signatures"}, "release")
            survivors, opened = told_survivors(self.name, held, block, table, self._vault)
            if self.roster is not None:
                signed = _statement(held, block, survivors, opened)
                check_signatures(block, signed, survivors, table["signatures"])
            summed = [name for group in opened for name in group] or survivors
            if held.occasion and not self._vault.note_opened(
                held.occasion, parts_digest(held.weights, summed)
            ):
                raise ProtocolError(
                    f"the sum of {held.occasion} was opened over other members before, and a second one would show "
                    "the difference: repeat it with the same members, or start a new run"
                )
            remember_opened(opened, self._vault)
            self._vault.save(replace(held, released=listed(survivors, opened)))
            shares = held.shares[held.masked]
            return {
                "self": {name: shares[name][1].hex() for name in summed if name in shares},
                "pair": {
                    name: shares[name][0].hex()
                    for name in block.members
                    if name not in summed and name in shares
                },
            }

    @property
    def threshold(self) -> int:
        """The fewest members whose sum is ever opened, of the block that was joined.

        Raises:
            ProtocolError: none was.
        """
        with self._vault.alone():
            return self._joined()[1].threshold

    def _held(self) -> Holdings:
        held = self._vault.load()
        if held is None:
            raise ProtocolError(f"{self.name} has set up no block in this run: ask for set-up first")
        return held

    def _joined(self) -> tuple[Holdings, Block]:
        held = self._held()
        if held.block is None:
            raise ProtocolError(f"{self.name} has not joined block {held.plan.id}: ask it to join first")
        return held, held.block


def _statement(held: Holdings, block: Block, survivors: Sequence[str], opened: Groups) -> bytes:
    return statement(block, held.masked, survivors, bytes.fromhex(held.told), opened)
