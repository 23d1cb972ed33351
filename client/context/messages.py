"""What a site sends to its peers and gets from them: sealed letters, relayed by the server.

A letter that does not open, is not newer than the last one of its sender and kind, or is from somebody whose keys
the site does not trust is dropped and told; the site goes on with what it has.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fedtag.client.secure.admission import trusted_peers
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.common.errors import ProtocolError, WireError
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.identity import Identity, PublicIdentity
from fedtag.common.secure.letters import STAMP_BYTES, Stamp, letter_stamp, opened_letter, sealed_letter
from fedtag.common.secure.names import PEERS
from fedtag.common.secure.phases import SHARES
from fedtag.common.secure.roster import read_roster
from fedtag.common.wire.records import Content, Instruction, Letter

LOGGER = logging.getLogger("fedtag")

READ = "read"


class Messages:
    """The letters of one exchange.

    Args:
        site: whose letters they are.
        instruction: that brought them.
        max_bytes: of one letter's tensors.

    Attributes:
        peers: names of those to whom letters can be sent, in order.
        received: by kind, then by sender: what the letters say, oldest first.
        unopened: senders of letters that were dropped.
        outgoing: what has been sent so far.
    """

    def __init__(self, site: Site, instruction: Instruction, max_bytes: float) -> None:
        self.site = site
        self.stamp = Stamp(instruction.run, instruction.round, instruction.step)
        self._identity = Identity.at(site.keys)
        roster = read_roster(site.roster) if site.roster is not None else None
        self._keys = trusted_peers(
            instruction.content.values.get(PEERS), site.name, self._identity.public, roster
        )
        self._store = StateStore(site.letters, instruction.run)
        remembered = self._store.load_before(instruction.step)
        self._read: dict[str, int] = dict(remembered.values[READ]) if remembered else {}
        self.received: dict[str, dict[str, list[Content]]] = {}
        self.unopened: tuple[str, ...] = ()
        self.outgoing: list[Letter] = []
        self._open(instruction.content.letters, max_bytes)

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(sorted(self._keys))

    def latest(self, kind: str) -> Mapping[str, Content]:
        """The newest letter of a kind from each sender that sent one."""
        return {sender: letters[-1] for sender, letters in sorted(self.received.get(kind, {}).items())}

    def send(self, recipient: str, kind: str, content: Content) -> None:
        """Seal a record for a peer; it goes out with the reply to this exchange.

        Raises:
            ProtocolError: the recipient is no peer, or has a letter of this kind in this exchange already.
        """
        if recipient not in self._keys:
            raise ProtocolError(f"{recipient} is no peer of {self.site.name}: its keys are unknown")
        if any((letter.recipient, letter.kind) == (recipient, kind) for letter in self.outgoing):
            raise ProtocolError(f"{recipient} gets a letter of kind '{kind}' already: put both into one")
        self.outgoing.append(
            sealed_letter(
                self._identity, self.site.name, recipient, self._keys[recipient], kind, self.stamp, content
            )
        )

    def key_with(self, peer: str, context: bytes) -> bytes:
        """A key that this site and a peer alone can derive, in the run and for a context of the method's.

        Raises:
            ProtocolError: it is no peer.
        """
        if peer not in self._keys:
            raise ProtocolError(f"{peer} is no peer of {self.site.name}: its keys are unknown")
        return self._identity.key_with(self._keys[peer], canonical("method", self.stamp.run, context))

    def complain(self, sender: str, why: str) -> None:
        """Leave out what a letter said, because it makes no sense to the method."""
        LOGGER.warning("a letter of %s is left out: %s", sender, why)
        self.unopened = tuple(sorted({*self.unopened, sender}))

    def close(self) -> None:
        """Remember which letters were read, so that none is read twice."""
        if self.received:
            self._store.save(self.stamp.round, self.stamp.step, {}, {READ: self._read})

    def _open(self, letters: tuple[Letter, ...], max_bytes: float) -> None:
        dropped = set()
        # Oldest first. Shares of secrets, which come by the same way, are for the member of secure sums.
        own = (letter for letter in letters if letter.kind != SHARES)
        for letter in sorted(own, key=lambda letter: letter.body[:STAMP_BYTES]):
            try:
                self._take(letter, max_bytes)
            except (ProtocolError, WireError) as error:
                LOGGER.warning("a letter of %s is dropped: %s", letter.sender, error)
                dropped.add(letter.sender)
        self.unopened = tuple(sorted(dropped))

    def _take(self, letter: Letter, max_bytes: float) -> None:
        if letter.recipient != self.site.name:
            raise ProtocolError(f"it is for {letter.recipient}")
        key: PublicIdentity | None = self._keys.get(letter.sender)
        if key is None:
            raise ProtocolError("its sender is no peer whose keys are known")
        stamp = letter_stamp(letter, self.stamp.run)
        line = f"{letter.sender}\n{letter.kind}"
        if not self._read.get(line, 0) < stamp.step < self.stamp.step:
            raise ProtocolError("it was read before, or is not from an earlier exchange: replayed")
        content = opened_letter(self._identity, key, self.site.name, letter, stamp, max_bytes)
        self._read[line] = stamp.step
        self.received.setdefault(letter.kind, {}).setdefault(letter.sender, []).append(content)
