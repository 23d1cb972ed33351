"""Letters from client to client, which the server relays and cannot read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedtag.common.errors import WireError
from fedtag.common.methods.records import Record
from fedtag.common.secure.names import PEERS, UNOPENED
from fedtag.common.secure.phases import SHARES
from fedtag.common.wire.limits import MAX_LETTERS
from fedtag.common.wire.records import Content, Letter, Reply
from fedtag.server.exchange.peer_list import PeerList
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.run_state import RunState


class Messages:
    """What waits for each client, until it has answered an exchange in which it was delivered.

    What waits belongs to the state of the run, so that a run that is resumed delivers the same letters.

    Args:
        peers: who has which keys.
        run_state: of the run.
        most_bytes: that wait for one client; the oldest letters go first.
    """

    def __init__(self, peers: PeerList, run_state: RunState, most_bytes: float) -> None:
        self.peers = peers
        self.run_state = run_state
        self.most_bytes = most_bytes

    def delivery(self, client: str) -> Content:
        """The keys of the peers, and what waits for a client."""
        return Content({}, {PEERS: self.peers.as_json()}, tuple(self.run_state.letters.get(client, ())))

    def exchanged(self, replies: Mapping[str, Reply], note: Callable[[str], None]) -> None:
        """Forget what those who answered have got, and keep what they sent.

        Args:
            replies: usable ones of a phase with letters, by client.
            note: told about letters that cannot be delivered.
        """
        for client, reply in sorted(replies.items()):
            reported = reply.content.values.get(UNOPENED, ())
            senders = [peer for peer in self.peers.keys if peer in reported]
            if senders:
                note(f"{client} could not open letters of {', '.join(senders)}, and goes on without them")
        waiting = {
            client: list(kept) for client, kept in self.run_state.letters.items() if client not in replies
        }
        for client, reply in replies.items():
            lost = [one.recipient for one in reply.content.letters if one.recipient not in self.peers.keys]
            if lost:
                more = f", and {len(lost) - 1} more of its letters" if len(lost) > 1 else ""
                note(f"a letter of {client} to {lost[0]!r} is dropped: nobody is called so{more}")
            for letter in reply.content.letters:
                if letter.recipient in self.peers.keys:
                    waiting.setdefault(letter.recipient, []).append(letter)
        for client, kept in waiting.items():
            dropped = max(0, len(kept) - MAX_LETTERS)
            size = sum(len(letter.body) for letter in kept[dropped:])
            while size > self.most_bytes:
                size -= len(kept[dropped].body)
                dropped += 1
            del kept[:dropped]
            if dropped:
                note(
                    f"{dropped} letters to {client} are dropped, since more than {MAX_LETTERS} of them or "
                    "exchange.max-message-mb waits for it"
                )
        self.run_state.letters = {client: tuple(kept) for client, kept in sorted(waiting.items()) if kept}


def check_letters(letters: tuple[Letter, ...], phase: Phase, declared: Mapping[str, Record]) -> None:
    """Refuse letters in a phase that has none, and kinds that the run does not declare as letters.

    Raises:
        WireError: naming the first fault.
    """
    if letters and not phase.letters and phase.name != SHARES:
        raise WireError(f"phase '{phase.name}' has no letters between clients")
    for letter in letters:
        known = letter.kind in declared and declared[letter.kind].form == "letter"
        if not known and not letter.kind == phase.name == SHARES:
            raise WireError(f"letters of kind {letter.kind[:64]!r} are not declared by anything in this run")
    addressed = [(letter.recipient, letter.kind) for letter in letters]
    if len(set(addressed)) < len(addressed):
        raise WireError("a client sends each peer at most one letter of a kind in a phase")
