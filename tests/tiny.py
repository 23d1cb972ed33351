"""Whole runs on tiny graphs in this process, over a grid that can meddle with what passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Error, Message

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.errors import QuorumError
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.roster import roster_entry
from fedtag.common.wire.codec import Parcel, decode_instruction, decode_reply, encode, pack
from fedtag.common.wire.records import Instruction, Reply
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.tracking.rows import RoundRow, Summary
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.run_log import coordinator_log
from tests.crossings import crossings

FIRST_NODE = 2
TINY: dict[str, object] = {
    "method": "fedavg",
    "rounds": 3,
    "device": "cpu",
    "ratio": 0.2,
    "model.hidden": 4,
    "dance.propagated": 1,
    "dance.rank": 2,
    "exchange.poll": 0.001,
    "exchange.start-timeout": 0.01,
    "privacy.block-rounds": 4,
}
# For runs in which a reply is lost: a grid in this process has every other one when sending returns.
IMPATIENT: dict[str, object] = {"exchange.deadline": 0.05, "exchange.first-deadline": 0.05}

Tell = Callable[[str, Instruction], Instruction]
Answer = Callable[[str, Instruction, Reply], "Reply | Exception | None"]
Online = Callable[[int], Iterable[str]]


@dataclass(frozen=True)
class Crossed:
    """One instruction as its client got it, and what the server got for it; None: nothing that could be read."""

    client: str
    told: Instruction
    reply: Reply | None
    parcels: tuple[Parcel, ...]


class Notes:
    """Progress that remembers what a person would read."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def begin(self, rounds: int, done: int) -> None:
        pass

    def advance(self, row: RoundRow) -> None:
        pass

    def scored(self, row: RoundRow) -> None:
        pass

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        self.texts.append(text)

    def __contains__(self, text: str) -> bool:
        return any(text in note for note in self.texts)


@contextmanager
def unhurried() -> Iterator[None]:
    """A server whose deadline, which is short for lost replies alone, ends nobody's training.

    How many steps fit into a tenth of a second depends on what else the machine does.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedtag.server.exchange.phases.TRAINING_SHARE", 1e9)
        yield


class MeddlingGrid(InProcessGrid):
    """A grid in which somebody reads and changes what passes, and whose nodes come and go.

    Args:
        sessions: of the clients; node 2 is the first.
        tell: what a client is told instead of an instruction.
        answer: what arrives instead of a reply: another one, the error of a client that failed, or nothing.
        online: the clients that are there at the exchange of a number, which counts from 1.
    """

    def __init__(
        self,
        sessions: Sequence[SiteRun],
        tell: Tell | None = None,
        answer: Answer | None = None,
        online: Online | None = None,
    ) -> None:
        self.parcels: list[Parcel] = []
        super().__init__(sessions, self.parcels.append)
        self.clients = {FIRST_NODE + place: session.site.name for place, session in enumerate(sessions)}
        self.tell, self.answer, self.online = tell, answer, online
        self.exchanges: list[list[Crossed]] = []

    def get_node_ids(self) -> list[int]:
        if self.online is None:
            return list(self.clients)
        there = set(self.online(len(self.exchanges) + 1))
        return [node for node, name in self.clients.items() if name in there]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        self.exchanges.append([])
        return [self._exchange(message) for message in messages]

    def _exchange(self, message: Message) -> str:
        client = self.clients[message.metadata.dst_node_id]
        told = decode_instruction(message.content)
        if self.tell is not None:
            told = self.tell(client, told)
        message.content = encode(told)
        first = len(self.parcels)
        (key,) = super().push_messages([message])
        message.metadata.__dict__["_message_id"] = key
        reply = None if self.replies[key].has_error() else decode_reply(self.replies[key].content, 1e12)
        if reply is not None and self.answer is not None:
            changed = self.answer(client, told, reply)
            if changed is not reply:
                del self.replies[key], self.parcels[-1:]
                reply = changed if isinstance(changed, Reply) else None
                if isinstance(changed, Exception):
                    error = Error(2, f"{type(changed).__name__}; the site's own log says more")
                    self.replies[key] = self._deliver(pack(Message(error, reply_to=message)))
                elif reply is not None:
                    self.replies[key] = self._deliver(pack(Message(encode(reply), reply_to=message)))
        self.exchanges[-1].append(Crossed(client, told, reply, tuple(self.parcels[first:])))
        return key


@dataclass(frozen=True)
class Tried:
    """A run on tiny graphs, finished or stopped by `error`, with all that it left behind."""

    place: Path
    sessions: Sequence[SiteRun]
    rounds: Rounds
    grid: MeddlingGrid
    notes: Notes
    summary: Summary | None
    error: QuorumError | None

    @property
    def state(self) -> Mapping[str, torch.Tensor]:
        assert self.rounds.run_state.state is not None
        return self.rounds.run_state.state.tensors

    @property
    def crossed(self) -> list[Crossed]:
        return [one for exchange in self.grid.exchanges for one in exchange]

    @property
    def phases(self) -> list[str]:
        """The phase of each exchange; that of members where others only scored."""
        return [max((one.told.phase for one in exchange), default="") for exchange in self.grid.exchanges]

    @property
    def disclosures(self) -> list[dict[str, Any]]:
        """A row for each who sent to whom."""
        return crossings(self.place / "run")

    def lines(self, name: str) -> list[dict[str, Any]]:
        text = (self.place / "run" / f"{name}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def replies(self, phase: str | None = None) -> list[Reply]:
        """What the server got, of one phase or of all."""
        found = [one.reply for one in self.crossed if one.reply is not None]
        return [reply for reply in found if phase in (None, reply.phase)]


@dataclass(frozen=True)
class Tiny:
    """Runs federations on tiny graphs whose features tell the classes; folders are written once."""

    write: Callable[..., Path]
    data: Path
    new_place: Callable[[], Path]
    folders: dict[str, Path] = field(default_factory=dict)

    def folder(self, position: int, trains: bool) -> Path:
        name = f"site-{position}{'' if trains else '-idle'}"
        if name not in self.folders:
            self.folders[name] = self.write(self.data / name, nodes=24 + 6 * position, seed=position)
            if not trains:
                table = self.folders[name] / "nodes.csv"
                table.write_text(table.read_text().replace(",train", ","))
        return self.folders[name]

    def __call__(
        self,
        settings: Mapping[str, object] | None = None,
        clients: int = 3,
        idle: Iterable[int] = (),
        rosters: bool = False,
        place: Path | None = None,
        patient: bool = True,
        tell: Tell | None = None,
        answer: Answer | None = None,
        online: Online | None = None,
        policy: Path | None = None,
    ) -> Tried:
        """One run.

        Args:
            settings: beside or against those of TINY.
            clients: how many, called site-0, site-1, ...
            idle: the positions of those without training nodes.
            rosters: whether every site pins the keys of all.
            place: of a stopped run that is to go on.
            patient: whether the server waits long for replies; if some are lost, it had better not.
            tell, answer, online: see MeddlingGrid.
            policy: of the first site.
        """
        waiting = {} if patient else IMPATIENT
        flat = {**TINY, **waiting, "clients": clients, **(settings or {})}
        config = RunConfig.from_flat(without_foreign(flat))
        place = place or self.new_place()
        roster = place / "roster.toml" if rosters else None
        sites = [
            Site(
                f"site-{k}",
                self.folder(k, k not in idle),
                place / f"site-{k}",
                place / "cache",
                "cpu",
                roster,
                None if k else policy,
            )
            for k in range(clients)
        ]
        if roster is not None:
            entries = [roster_entry(site.name, Identity.at(site.keys).public) for site in sites]
            roster.write_text("\n".join(entries), encoding="utf-8")
        sessions = [SiteRun(site, config) for site in sites]
        grid, notes = MeddlingGrid(sessions, tell, answer, online), Notes()
        directory = RunDirectory(place / "run", resume=(place / "run").exists())
        rounds = Rounds(grid, config, directory, notes, log=coordinator_log(place / "home"))
        summary = error = None
        with unhurried(), pytest.MonkeyPatch.context() as patch:
            # The report has tests of its own and takes longer than a run of this size.
            patch.setattr("fedtag.server.run.conclusion.write_report", lambda runs, out: None)
            try:
                summary = rounds.run()
            except QuorumError as stop:
                error = stop
        return Tried(place, sessions, rounds, grid, notes, summary, error)
