from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.common.errors import WireError
from fedtag.common.methods.records import Record, by_name
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.names import PEERS, UNOPENED
from fedtag.common.wire.records import Content, Letter, Reply
from fedtag.server.exchange.messages import Messages, check_letters
from fedtag.server.exchange.peer_list import PeerList
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.run_state import RunState

PHASE = Phase("write", "clients write", letters=True)
DECLARED = by_name([Record("note", "a note", form="letter"), Record("seconds", "durations", form="value")])


@pytest.fixture
def messages(tmp_path: Path) -> Messages:
    directory = PeerList()
    directory.keys = {name: Identity.at(tmp_path / name).public for name in "abc"}
    return Messages(directory, RunState(), 10)


def letter(sender: str, recipient: str, body: bytes = b"sealed", kind: str = "note") -> Letter:
    return Letter(sender, recipient, kind, body)


def reply(client: str, *letters: Letter, **values: object) -> Reply:
    return Reply("run", 1, 1, "write", client, Content({}, values, letters))


def test_letters_wait_until_their_recipient_answers(messages: Messages) -> None:
    notes: list[str] = []
    messages.exchanged({"a": reply("a", letter("a", "b"), letter("a", "c"))}, notes.append)
    assert messages.delivery("b").letters == (letter("a", "b"),)
    assert messages.delivery("a").letters == ()
    assert set(messages.delivery("b").values[PEERS]) == {"a", "b", "c"}
    messages.exchanged({"b": reply("b", letter("b", "a"))}, notes.append)
    assert messages.delivery("b").letters == ()
    assert messages.delivery("a").letters == (letter("b", "a"),)
    assert messages.delivery("c").letters == (letter("a", "c"),)
    assert notes == []


def test_who_is_unknown_gets_nothing_and_too_much_drops_the_oldest(messages: Messages) -> None:
    notes: list[str] = []
    messages.exchanged({"a": reply("a", letter("a", "nobody"), letter("a", "b", b"first"))}, notes.append)
    messages.exchanged({"c": reply("c", letter("c", "b", b"second"))}, notes.append)
    assert [one.body for one in messages.delivery("b").letters] == [b"second"]
    assert notes == [
        "a letter of a to 'nobody' is dropped: nobody is called so",
        "1 letters to b are dropped, since more than 16384 of them or exchange.max-message-mb waits for it",
    ]


def test_letters_that_could_not_be_opened_are_told(messages: Messages) -> None:
    notes: list[str] = []
    messages.exchanged({"a": reply("a", **{UNOPENED: ["b", "<script>"]})}, notes.append)
    assert notes == ["a could not open letters of b, and goes on without them"]


@pytest.mark.parametrize(
    ("letters", "phase", "message"),
    [
        ((letter("a", "b"),), Phase("train", ""), "phase 'train' has no letters"),
        ((letter("a", "b", kind="other"),), PHASE, "kind 'other' are not declared"),
        ((letter("a", "b", kind="seconds"),), PHASE, "kind 'seconds' are not declared"),
        ((letter("a", "b"), letter("a", "b")), PHASE, "at most one letter of a kind"),
    ],
)
def test_letters_out_of_place_are_refused(letters: tuple[Letter, ...], phase: Phase, message: str) -> None:
    with pytest.raises(WireError, match=message):
        check_letters(letters, phase, DECLARED)


def test_letters_in_place_pass() -> None:
    check_letters((letter("a", "b"), letter("a", "c")), PHASE, DECLARED)
    check_letters((), Phase("train", ""), DECLARED)
