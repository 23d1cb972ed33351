from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fedtag.client.context.messages import Messages
from fedtag.client.site.site import Site
from fedtag.common.errors import ProtocolError
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.names import PEERS
from fedtag.common.secure.phases import SHARES
from fedtag.common.secure.roster import roster_entry
from fedtag.common.wire.records import Content, Instruction, Letter

NAMES = ("a", "b", "c")


class Town:
    """Three sites, each with its own folder, and an exchange numbered by its step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sites = {name: Site(name, folder, folder / name, folder / "cache") for name in NAMES}
        self.keys = {name: Identity.at(site.keys).public for name, site in self.sites.items()}

    def open(
        self, name: str, step: int, letters: Sequence[Letter] = (), run: str = "run", site: Site | None = None
    ) -> Messages:
        peers = {other: key.as_json() for other, key in self.keys.items()}
        content = Content({}, {PEERS: peers}, tuple(letters))
        return Messages(site or self.sites[name], Instruction(run, step, step, "train", content), 1e6)

    def letter(self, step: int, text: str = "hello", kind: str = "note", to: str = "b") -> Letter:
        messages = self.open("a", step)
        messages.send(to, kind, Content({}, {"text": text}))
        return messages.outgoing[0]


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


def texts(messages: Messages, sender: str = "a") -> list[str]:
    return [said.values["text"] for said in messages.received.get("note", {}).get(sender, [])]


def test_letters_arrive_in_order_and_the_newest_counts(town: Town) -> None:
    later, first = town.letter(2, "second"), town.letter(1, "first")
    messages = town.open("b", 3, [later, first])
    assert messages.peers == ("a", "c")
    assert texts(messages) == ["first", "second"]
    assert messages.latest("note")["a"].values == {"text": "second"}
    assert messages.unopened == ()


def test_a_letter_is_read_once(town: Town) -> None:
    letter = town.letter(1)
    town.open("b", 2, [letter]).close()
    replayed = town.open("b", 3, [letter])
    assert (texts(replayed), replayed.unopened) == ([], ("a",))
    twice = town.open("b", 2, [letter, letter])
    assert (texts(twice), twice.unopened) == (["hello"], ("a",))


def test_a_repeated_exchange_reads_the_same_letters(town: Town) -> None:
    letter = town.letter(1)
    for _ in range(2):
        messages = town.open("b", 2, [letter])
        assert texts(messages) == ["hello"]
        messages.close()


def test_a_letter_from_the_same_or_a_coming_exchange_is_dropped(town: Town) -> None:
    for step in (2, 3):
        assert town.open("b", 2, [town.letter(step)]).unopened == ("a",)


def test_what_does_not_open_is_dropped_and_the_rest_is_read(town: Town) -> None:
    good, bad = town.letter(1), town.letter(1, kind="other")
    altered = replace(bad, body=bad.body[:-1] + bytes([bad.body[-1] ^ 1]))
    misaddressed = replace(town.letter(1, kind="third", to="c"), recipient="b")
    messages = town.open("b", 2, [altered, good, misaddressed])
    assert (texts(messages), messages.unopened) == (["hello"], ("a",))
    assert town.open("b", 2, [town.letter(1, to="c")]).unopened == ("a",)


def test_letters_of_another_run_do_not_open(town: Town) -> None:
    messages = town.open("b", 2, [town.letter(1)], run="another")
    assert (texts(messages), messages.unopened) == ([], ("a",))


def test_shares_of_secrets_are_for_somebody_else(town: Town) -> None:
    messages = town.open("b", 2, [Letter("a", "b", SHARES, b"sealed otherwise")])
    assert (messages.received, messages.unopened) == ({}, ())


def test_a_stranger_or_a_second_letter_of_a_kind_is_refused(town: Town) -> None:
    messages = town.open("a", 1)
    with pytest.raises(ProtocolError, match="nobody is no peer of a"):
        messages.send("nobody", "note", Content())
    messages.send("b", "note", Content())
    with pytest.raises(ProtocolError, match="put both into one"):
        messages.send("b", "note", Content())


def test_a_server_that_tells_other_keys_is_found_out(town: Town) -> None:
    town.keys["b"] = town.keys["c"]
    with pytest.raises(ProtocolError, match="other keys of b"):
        town.open("b", 1)


def test_a_roster_decides_who_is_a_peer(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    roster = town.folder / "roster.toml"
    roster.write_text("".join(roster_entry(name, town.keys[name]) for name in NAMES))
    letter = town.letter(1)
    pinned = replace(town.sites["b"], roster=roster)
    assert texts(town.open("b", 2, [letter], site=pinned)) == ["hello"]
    town.keys["a"] = Identity.at(town.folder / "impostor").public
    messages = town.open("b", 2, [letter], site=pinned)
    assert (messages.peers, messages.unopened) == (("c",), ("a",))
    assert "not those in the roster of b" in caplog.text


def test_without_a_table_of_keys_there_are_no_letters(town: Town) -> None:
    with pytest.raises(ProtocolError, match="table of their keys"):
        Messages(town.sites["a"], Instruction("run", 1, 1, "train", Content()), 1.0)
