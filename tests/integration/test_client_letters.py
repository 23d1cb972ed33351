"""What FedC4's clients show one another passes the server sealed: what it sees, what it can do, who vanishes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Error, Message
from safetensors.torch import load_file

from fedtag.client.condense.synthetic.keeping import condensed_graph
from fedtag.client.context.messages import Messages
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import ProtocolError
from fedtag.common.methods.fedc4.names import NODES, PORTRAIT
from fedtag.common.models.parameters import fingerprint
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.letters import letter_stamp, opened_letter
from fedtag.common.wire.codec import decode_instruction, decode_reply, encode
from fedtag.common.wire.records import Content, Instruction, Letter, Reply
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory
from tests.crossings import crossings
from tests.exchanges import context_of

ROUNDS = 4
NAMES = ("a", "b", "c")
SETTINGS: dict[str, object] = {
    "method": "fedc4",
    "rounds": ROUNDS,
    "device": "cpu",
    "ratio": 0.2,
    "clients": 3,
    "model.hidden": 8,
    "condenser.outer-loops": 2,
    "condenser.inner-loops": 3,
    "condenser.hidden": 8,
    "fedc4.exchange": "cluster",
    "fedc4.clusters": 1,
    "exchange.quorum": 0.5,
    "exchange.retries": 0,
    "exchange.poll": 0.001,
}

# What is shown depends on the model, so that nodes go out in every round.
FLOWING: dict[str, Any] = {"fedc4.exchange": "selected", "fedc4.threshold": 0.0, "train.learning-rate": 0.1}


class Killed(BaseException):
    """Stands for the end of the server's process when the clients have answered."""


Relay = Callable[[Instruction], Instruction]


class Postman(InProcessGrid):
    """A server's grid that notes all it sees, can change what it relays, and loses a node for some exchanges."""

    def __init__(
        self, sessions: Iterable[SiteRun], relay: Relay | None = None, absent: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(list(sessions))
        self.relay = relay
        self.absent = absent
        self.seen: list[Reply] = []
        self.dies_after: str | None = None

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = []
        for message in messages:
            instruction = decode_instruction(message.content)
            if self.relay is not None:
                message.content = encode(self.relay(instruction))
            sent.append((message, f"{instruction.phase} {instruction.round} {message.metadata.dst_node_id}"))
        keys = super().push_messages([message for message, _ in sent])
        if any(name.startswith(f"{self.dies_after} ") for _, name in sent):
            raise Killed
        for key, (message, name) in zip(keys, sent, strict=True):
            if name in self.absent:
                message.metadata.__dict__["_message_id"] = key
                self.replies[key] = Message(Error(5, "the node is gone"), reply_to=message)
                continue
            reply = self.replies[key]
            if not reply.has_error():
                self.seen.append(decode_reply(reply.content, 1e9))
        return keys


class Neighbourhood:
    """Three sites, and runs over them that end in folders of their own."""

    def __init__(self, folder: Path, write: Callable[..., Path]) -> None:
        self.folder = folder
        self.data = {name: write(folder / "data" / name, 40, seed) for seed, name in enumerate(NAMES)}

    def sessions(self, run: str, config: RunConfig) -> list[SiteRun]:
        cache = self.folder / "cache"
        places = {name: self.folder / run / "work" / name for name in NAMES}
        return [SiteRun(Site(name, self.data[name], places[name], cache, "cpu"), config) for name in NAMES]

    def train(
        self,
        run: str,
        relay: Relay | None = None,
        absent: frozenset[str] = frozenset(),
        dies_after: str | None = None,
        **changes: Any,
    ) -> tuple[Postman, RunDirectory, list[SiteRun]]:
        out = self.folder / run / "out"
        resume = out.exists()
        config = RunConfig.from_flat({**SETTINGS, **changes, "out": str(out), "resume": resume})
        sessions = self.sessions(run, config)
        postman = Postman(sessions, relay, absent)
        postman.dies_after = dies_after
        directory = RunDirectory(out, resume=resume)
        Rounds(postman, config, directory, LineProgress()).run()
        return postman, directory, sessions


@pytest.fixture
def neighbourhood(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Neighbourhood:
    return Neighbourhood(tmp_path, write_feature_folder)


def letters(postman: Postman) -> Iterator[Letter]:
    for reply in postman.seen:
        yield from reply.content.letters


def model(directory: RunDirectory) -> str:
    return fingerprint(load_file(directory.path / "model.safetensors"))


def test_the_server_sees_envelopes_that_it_cannot_open(neighbourhood: Neighbourhood) -> None:
    postman, directory, sessions = neighbourhood.train("plain")
    envelopes = list(letters(postman))
    assert {letter.kind for letter in envelopes} == {PORTRAIT, NODES}
    # What nodes look like is in none of the bytes that the server gets: neither rows, nor single columns of them.
    for session in sessions:
        rows = condensed_graph(session.data, context_of(session, run=postman.seen[0].run))[0].x
        planted = [row.numpy().tobytes() for row in rows] + [rows[:, 0].numpy().tobytes()]
        for reply in postman.seen:
            told = [value.numpy().tobytes() for value in reply.content.tensors.values()]
            told += [letter.body for letter in reply.content.letters]
            told.append(json.dumps(dict(reply.content.values)).encode())
            assert not any(one in text for one in planted for text in told)
    # The server has every public key and keys of its own, and no private one.
    own = Identity.at(neighbourhood.folder / "server keys")
    public = {
        name: Identity.at(session.site.keys).public for name, session in zip(NAMES, sessions, strict=True)
    }
    for letter in envelopes:
        stamp = letter_stamp(letter, postman.seen[0].run)
        for key in (*public.values(), own.public):
            with pytest.raises(ProtocolError, match="altered"):
                opened_letter(own, key, letter.recipient, letter, stamp, 1e9)
        reader = Identity.at(neighbourhood.folder / "plain" / "work" / letter.recipient / "keys")
        assert opened_letter(reader, public[letter.sender], letter.recipient, letter, stamp, 1e9).tensors
    between = [row for row in crossings(directory.path) if "server" not in (row["from"], row["to"])]
    assert {row["protected"] for row in between} == {"encrypted"}
    cores = [
        condensed_graph(session.data, context_of(session, run=postman.seen[0].run))[0] for session in sessions
    ]
    shown = sum(row["count"] for row in between if row["kind"] == NODES)
    assert shown == 2 * sum(core.num_nodes for core in cores)
    assert sum(row["bytes"] for row in between) == sum(len(letter.body) for letter in envelopes)


@pytest.mark.parametrize("how", ["altered", "misaddressed", "replayed"])
def test_envelopes_that_the_server_meddles_with_are_refused_and_the_run_goes_on(
    neighbourhood: Neighbourhood, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[Letter] = []

    def relay(instruction: Instruction) -> Instruction:
        given = instruction.content.letters
        kept.extend(given)
        if how == "altered":
            given = tuple(replace(one, body=one.body[:-1] + bytes([one.body[-1] ^ 1])) for one in given)
        elif how == "misaddressed":
            given = tuple(replace(one, sender=next(n for n in NAMES if n != one.sender)) for one in given)
        else:
            given = given + tuple(one for one in kept if given and one.recipient == given[0].recipient)
        return replace(instruction, content=replace(instruction.content, letters=given))

    postman, directory, _ = neighbourhood.train(how, relay)
    unopened = [reply.content.values.get("unopened") for reply in postman.seen]
    assert any(unopened)
    assert len(directory.read_rounds()) == ROUNDS
    assert "a letter of" in caplog.text
    if how == "replayed":
        _, clean, _ = neighbourhood.train("clean")
        assert model(directory) == model(clean), "what is replayed changes nothing"


def test_a_peer_that_vanishes_between_phases_costs_its_own_letters_only(neighbourhood: Neighbourhood) -> None:
    absent = frozenset({"nodes 1 3", "train 1 3"})
    postman, directory, _ = neighbourhood.train("vanished", None, absent)
    rounds = directory.read_rounds()
    assert [row.round for row in rounds] == list(range(1, ROUNDS + 1))
    assert rounds[0].clients_failed == 1
    assert all(row.clients_failed == 0 for row in rounds[1:])
    later = {
        (one.sender, one.recipient)
        for reply in postman.seen
        if reply.round > 1
        for one in reply.content.letters
    }
    assert any(sender == "b" for sender, _ in later), "who came back writes again"


@pytest.mark.parametrize("moment", ["keys 3", "train 3"])
def test_a_resumed_run_delivers_the_letters_that_waited(neighbourhood: Neighbourhood, moment: str) -> None:
    """Clients have done what they were asked when the server dies, and must forget it when they are asked again.

    A resumed run asks for keys first, whatever the one before had asked.
    """
    whole, undisturbed, _ = neighbourhood.train("whole", **FLOWING)
    with pytest.raises(Killed):
        neighbourhood.train("resumed", dies_after="train 3", **FLOWING)
    if moment == "keys 3":
        with pytest.raises(Killed):
            neighbourhood.train("resumed", dies_after=moment, **FLOWING)
    again, resumed, _ = neighbourhood.train("resumed", **FLOWING)
    assert model(resumed) == model(undisturbed)
    assert [row.val_accuracy for row in resumed.read_rounds()] == [
        row.val_accuracy for row in undisturbed.read_rounds()
    ]
    assert len(again.seen) < len(whole.seen)


def test_a_phase_without_letters_opens_none(neighbourhood: Neighbourhood) -> None:
    _, _, sessions = neighbourhood.train("alone", **{"fedc4.exchange": "off"})
    assert not any(session.site.letters.exists() for session in sessions)
    with pytest.raises(ProtocolError, match="table of their keys"):
        Messages(sessions[0].site, Instruction("run", 1, 1, "train", Content()), 1e6)
