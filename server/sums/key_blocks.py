"""Key blocks of secure sums as the server leads them: whose keys it knows, who is in the current one, who is not."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from fedtag.common.config import RunConfig
from fedtag.common.errors import ProtocolError, QuorumError
from fedtag.common.logs import Event, fields
from fedtag.common.numerics.robust_rules import GROUP_RULES
from fedtag.common.secure.block import Block
from fedtag.common.secure.groups import drawn_groups
from fedtag.common.secure.names import DRAW, UNREAD
from fedtag.common.secure.phases import SHARES
from fedtag.common.wire.records import Content, Letter, Reply
from fedtag.common.wording.counts import plural
from fedtag.server.exchange.phases import Phases
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.round import Round
from fedtag.server.state.run_state import RunState

DEAL_SHARES = Phase(SHARES, "clients prepare the secrets of a block of sums and deal shares of them")

LATE = "came after the groups of the run were drawn, which stay: its updates take part from the next run on"


class KeyBlocks:
    """The current block and the way to it; nothing of it is in a checkpoint, so that no secret serves twice.

    Args:
        phases: carry out exchanges.
        run_state: of the run.
        config: of the run.
    """

    def __init__(self, phases: Phases, run_state: RunState, config: RunConfig) -> None:
        self.phases = phases
        self.run_state = run_state
        self.sums = config.privacy.block_rounds
        self.fewest = max(2, math.ceil(config.exchange.quorum * config.clients))
        self.rule = config.aggregation.rule
        self.grouped = self.rule in GROUP_RULES
        self.peers = phases.peers
        self.train_nodes: dict[str, int] = {}
        self.letters: dict[str, tuple[Letter, ...]] = {}
        self.joined: set[str] = set()
        self.unread: dict[str, frozenset[str]] = {}
        self.block: Block | None = None
        self.next = 0
        # Why clients have no part: in any block from now on, in the current one.
        self.barred: dict[str, str] = {}
        self.outside: dict[str, str] = {}
        self.late: set[str] = set()
        self.warned = False

    def begun(self, current: Round) -> tuple[Block, int, list[int]]:
        """The block and the number of its next sum, and the nodes that are online.

        Raises:
            QuorumError: too few clients answered, or take part.
            ProtocolError: their keys make no block.
        """
        online = self.phases.introduced(current)
        for client, reported in self.peers.reported.items():
            if client not in self.train_nodes:
                self.note_sizes(client, reported)
        if self.block is None or self.next >= self.block.sums:
            self.block = self._prepared(current, online)
        index, self.next = self.next, self.next + 1
        return self.block, index, online

    def given_up(self) -> None:
        """Another attempt needs other masks, and perhaps without those who are gone."""
        self.block = None

    @property
    def absent(self) -> Mapping[str, str]:
        """Why clients have no part in the current sum."""
        return {**self.outside, **self.peers.unknown}

    def welcome(self, contributions: Mapping[str, Reply]) -> None:
        """Note who joined with its upload, and whose letters could not be read.

        Raises:
            QuorumError: the letters of a member do not reach enough of the others, so that its masks could not be
                taken off. If nobody's return could help, it is left out from now on. No share of this sum has been
                asked for yet: once it has, clients help to open the round over the same members only.
        """
        assert self.block is not None
        for client, reply in contributions.items():
            if client not in self.joined:
                self.joined.add(client)
                self.unread[client] = _unread(reply, self.block.members)
        needed, spare = self.block.threshold, len(self.block.members) - self.block.threshold
        for owner in self.block.members:
            strangers = sorted(client for client, unread in self.unread.items() if owner in unread)
            holders = contributions.keys() - set(strangers)
            if not strangers or len(contributions) < needed or len(holders) >= needed:
                continue
            why = f"its letters to {', '.join(strangers)} could not be read"
            if len(strangers) > spare:
                self.barred[owner] = why
            raise QuorumError(f"the masks of {owner} could not be taken off a sum, since {why}")

    def note_sizes(self, client: str, values: Mapping[str, Any]) -> None:
        """Remember how many training nodes a client has; where that is hidden, only whether it has any."""
        if "sizes" in values:
            self.train_nodes[client] = values["sizes"]["train_nodes"]
        elif "trains" in values:
            self.train_nodes[client] = int(values["trains"] is True)

    def _prepared(self, current: Round, online: list[int]) -> Block:
        """A new block with everybody who is online, has keys, and is not left out for good."""
        named = {node: self.phases.names.get(node, "") for node in online}
        keys = self.peers.keys
        names = {node: name for node, name in named.items() if name in keys and name not in self.barred}
        asked = {name: keys[name] for name in names.values()}
        if len(asked) < self.fewest:
            raise QuorumError(
                f"{plural(len(asked), 'client')} can take part in a sum, {self.fewest} must (exchange.quorum of "
                "clients): start the others, or lower the quorum"
            )
        plan = Block.planned(self.run_state.run, self.sums, asked, self._draws(asked))
        asked_nodes = dict.fromkeys(names, DEAL_SHARES)
        request = Content({}, {SHARES: plan.as_json()})
        try:
            replies, failures = self.phases.run(
                current, DEAL_SHARES, asked_nodes, lambda client: request, wanted=plan.threshold
            )
        except QuorumError:
            # Who refuses may have other keys than those it was asked with.
            keys.clear()
            raise
        for client in failures:
            keys.pop(client, None)
        members, letters = {}, dict[str, list[Letter]]()
        for client, reply in replies.items():
            try:
                members[client] = plan.accepted(client, reply.content.values.get(SHARES))
            except ProtocolError as error:
                self.phases.progress.note(
                    f"{client} is not in the block: {error}",
                    fields(Event.SECURE_SUM, round=current.number, client=client, error="ProtocolError"),
                )
                failures[client] = str(error)
                continue
            for letter in reply.content.letters:
                letters.setdefault(letter.recipient, []).append(letter)
        block = plan.completed(members)
        self._group(block)
        self.letters = {
            client: tuple(letter for letter in letters.get(client, []) if letter.sender in members)
            for client in members
        }
        self.joined, self.unread, self.next = set(), {}, 0
        self.outside = {**self._late(current, block), **self.barred, **failures}
        if len(block.members) == 2 and not self.warned:
            self.warned = True
            self.phases.progress.note(
                "two clients: each can subtract its own part from a sum and so see the other's",
                fields(Event.SECURE_SUM, round=current.number, clients=2),
            )
        return block

    def _draws(self, asked: Collection[str]) -> dict[str, str]:
        """What members committed to, where sums are opened by group."""
        reported = {client: self.peers.reported.get(client, {}).get(DRAW) for client in asked}
        return {client: str(draw) for client, draw in reported.items()} if self.grouped else {}

    def _late(self, current: Round, block: Block) -> dict[str, str]:
        """Why members who came after the groups were drawn have no part in sums of groups; each is named once."""
        grouped = {name for group in self.run_state.groups for name in group}
        late = dict.fromkeys(sorted(block.members.keys() - grouped), LATE) if grouped else {}
        for client in late.keys() - self.late:
            self.phases.progress.note(
                f"round {current.number}: {client} {LATE}",
                fields(Event.SECURE_SUM, round=current.number, client=client),
            )
        self.late |= late.keys()
        return late

    def _group(self, block: Block) -> None:
        """Draw the groups of the run by what the members of its first block committed to."""
        if not self.grouped or self.run_state.groups:
            return
        if len(block.members) < self.phases.fewest:
            raise QuorumError(
                f"{plural(len(block.members), 'member')} prepared the first block, aggregation.rule = {self.rule} "
                f"needs {self.phases.fewest}: start the others, or set aggregation.rule = mean"
            )
        draws = {client: keys.draw for client, keys in block.members.items()}
        self.run_state.groups = drawn_groups(draws)


def _unread(reply: Reply, members: Collection[str]) -> frozenset[str]:
    """The members whose letters a client says that it could not read."""
    reported = reply.content.values.get(UNREAD, ())
    return frozenset(name for name in members if name in reported)
