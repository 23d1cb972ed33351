"""A run over tiny institutions, of which everything is noted that passes and that it leaves."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.data.writing import write_folder
from fedtag.client.methods.side import ClientSide
from fedtag.client.parts.part import ClientPart
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.common.config import RunConfig
from fedtag.common.config.places import SEPARATOR, SOURCE
from fedtag.common.methods.spec import METHODS
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wire.codec import decode_reply
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.runs import course
from fedtag.runs.grid import InProcessGrid
from fedtag.runs.progress import LogProgress, Progress
from fedtag.runs.run import Run
from fedtag.runs.simulation import PreparedRun, errors_kept
from fedtag.runs.stacked.sums import stacked
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import SilentProgress
from fedtag.server.strategies.aggregation import Aggregation
from fedtag.server.tracking.disclosures import Disclosure
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.run_directory import RunDirectory

MOST = 1e12
"""Bytes of a reply that is read again."""


class Stopping(SilentProgress):
    """It stops a run after its first round, as Ctrl-C would."""

    def advance(self, row: RoundRow) -> None:
        raise KeyboardInterrupt


def silent(stopping: bool = False) -> Progress:
    """Progress that nobody sees, of a run that is to be stopped or not."""
    progress = LogProgress()
    progress.rounds = Stopping() if stopping else SilentProgress()
    return progress


@dataclass(frozen=True)
class Said:
    """What a method contributed to an exchange, before anything hid it."""

    round: int
    client: str
    content: Content


@dataclass
class Notes:
    """What methods said, and by which validation nodes each client judges models."""

    said: list[Said] = field(default_factory=list)
    judging: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


class Overheard(ClientPart):
    """A method whose contributions are noted."""

    def __init__(self, method: ClientSide, notes: Notes) -> None:
        super().__init__(method)
        self.notes = notes

    def respond(self, data: SiteData, context: RunContext[Any]) -> Content:
        content, client = self.method.respond(data, context), data.site.name
        self.notes.said.append(Said(context.round, client, content))
        if client not in self.notes.judging:
            inner = METHODS.resolved(context.config.spec, context.config.spec.client)
            self.notes.judging[client] = inner.judges(data, context).cpu().numpy()
        return content


class OverheardSite(SiteRun):
    """A site whose method is overheard; one that is made `anew` has nothing ready from earlier exchanges."""

    def __init__(self, site: Site, config: RunConfig, notes: Notes, anew: bool = False) -> None:
        super().__init__(site, config)
        self.notes, self.anew = notes, anew

    def respond(self, instruction: Instruction) -> Reply:
        if self.anew:
            return OverheardSite(self.site, self.config, self.notes).respond(instruction)
        return super().respond(instruction)

    @cached_property
    def _method(self) -> ClientSide:
        return Overheard(super()._method, self.notes)


@dataclass
class Watch:
    """Carries out the rounds of a run in this process, and notes what passes; also of one that goes on.

    Args:
        reverse: the clients join in the other order.
        anew: every message finds a process in which nothing has been done.
        held: what the institutions hold, in the order of their names, in place of what the run was begun with; as
            between machines, where nobody sees before the first round that no node has a label to learn.
    """

    reverse: bool = False
    anew: bool = False
    held: Sequence[TextGraph] = ()
    notes: Notes = field(default_factory=Notes)
    replies: list[Reply] = field(default_factory=list)
    rounds: Rounds | None = None
    sites: tuple[Site, ...] = ()
    # Noise that nobody can draw again would hide whether all else is the same in two runs.
    noise: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __call__(self, run: PreparedRun, progress: Progress) -> None:
        for site, graph in zip(run.sites, self.held, strict=False):
            write_folder(replace(graph, name=site.name), site.folder)
        clients = [OverheardSite(site, run.config, self.notes, self.anew) for site in run.sites]
        grid = ReadGrid(clients[::-1] if self.reverse else clients)
        engine = stacked(clients) if run.config.engine == "stacked" else None
        self.rounds = Rounds(grid, run.config, run.directory, progress.rounds, report=False, engine=engine)
        self.rounds.aggregation = Aggregation(run.config, self.noise.bytes)
        self.sites = run.sites
        try:
            with errors_kept(run.directory.path, progress):
                self.rounds.run()
        finally:
            self.replies += grid.read()


class ReadGrid(InProcessGrid):
    """A grid whose replies are read as they cross the network."""

    def __init__(self, clients: Sequence[SiteRun]) -> None:
        self.parcels: list[Any] = []
        super().__init__(clients, tap=self.parcels.append)

    def read(self) -> Iterator[Reply]:
        """The replies so far, but for those that are errors."""
        for parcel in self.parcels[1::2]:
            message = parcel.open()
            if not message.has_error():
                yield decode_reply(message.content, MOST)


@dataclass(frozen=True)
class Trial:
    """A run that is over, with all that it left."""

    config: RunConfig
    path: Path
    watch: Watch

    @property
    def run(self) -> Run:
        """As a person opens it."""
        return Run(self.path)

    @property
    def rounds(self) -> Rounds:
        """What carried out its rounds."""
        assert self.watch.rounds is not None
        return self.watch.rounds

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Of metrics.jsonl."""
        return lines(self.path / "metrics.jsonl")

    @cached_property
    def clients(self) -> list[dict[str, Any]]:
        """Of clients.jsonl."""
        return lines(self.path / "clients.jsonl")

    @cached_property
    def disclosures(self) -> list[Disclosure]:
        """Of disclosures.jsonl."""
        return RunDirectory.open(self.path).read_disclosures()

    @property
    def state(self) -> Mapping[str, Tensor]:
        """Of the server, at the end."""
        assert self.rounds.run_state.state is not None
        return self.rounds.run_state.state.tensors

    @property
    def best(self) -> Mapping[str, Tensor]:
        """The model that was chosen; empty where models stay with the clients."""
        return self.rounds.run_state.best

    def scores(self, *names: str) -> list[tuple[Any, ...]]:
        """Of each round, by the names of columns."""
        return [tuple(row[name] for name in names) for row in self.rows]

    def parameters(self) -> tuple[str, ...]:
        """What training led to, on the server and at the clients, as fingerprints."""
        return fingerprint(self.state), *self.kept().values()

    def kept(self) -> dict[str, str]:
        """What each client keeps of the run, as fingerprints; empty where it keeps nothing."""
        run = self.rounds.run_state.run
        found = {site.name: StateStore(site.state, run).load_before(10**6) for site in self.watch.sites}
        return {name: fingerprint(one.tensors) if one else "" for name, one in found.items()}

    def contributions(
        self, rounds: int, without: Sequence[str] = ("scores",)
    ) -> dict[str, list[tuple[str, Any]]]:
        """All that methods said in rounds up to some, and before the first one, by client, as fingerprints.

        Args:
            rounds: up to and with this one.
            without: kinds of tensors and values to leave out.
        """
        told: dict[str, list[tuple[str, Any]]] = {}
        for said in self.watch.notes.said:
            if said.round <= rounds:
                kinds = said.content.tensors.items()
                tensors = {name: value for name, value in kinds if name.partition("/")[0] not in without}
                values = {name: value for name, value in said.content.values.items() if name not in without}
                told.setdefault(said.client, []).append((fingerprint(tensors), values))
        return told


def tried(
    config: RunConfig,
    graphs: Sequence[TextGraph],
    path: Path,
    watch: Watch,
    stopped: bool = False,
    resumed: bool = True,
) -> Trial:
    """Carry out a run.

    Args:
        config: of the run, but for its data and its directory.
        graphs: of the clients.
        path: the run directory.
        watch: carries it out.
        stopped: after its first round.
        resumed: where it was stopped, whether it goes on.
    """
    names = SEPARATOR.join(graph.name for graph in graphs)
    config = RunConfig.from_flat({**config.to_flat(), SOURCE: names, "out": str(path)})
    if not stopped:
        course.start(config, watch, silent(), graphs)
        return Trial(config, path, watch)
    with contextlib.suppress(KeyboardInterrupt):
        course.start(config, watch, silent(stopping=True), graphs)
    if resumed:
        course.resume(path, watch, silent())
    return Trial(config, path, watch)


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def numbers(folder: Path) -> Iterator[float]:
    """All numbers in the JSON files under a folder, read so that NaN and infinity come through."""
    for path in folder.rglob("*.json*"):
        text = path.read_text(encoding="utf-8")
        for part in text.splitlines() if path.suffix == ".jsonl" else [text]:
            yield from _flat(json.loads(part))


def _flat(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from _flat(entry)
    elif isinstance(value, int | float):
        yield float(value)
