"""A client during a run: its data, loaded when first needed, and what lasts between messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from fedtag.client.context.messages import Mailbox
from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.evidence.earlier import evidence_of_run
from fedtag.client.run.guard import answered, guarded
from fedtag.client.site.site import Site
from fedtag.client.site.state import Remembered, StateStore
from fedtag.client.site.storage import room
from fedtag.client.text.bank import TextBank
from fedtag.client.text.encoder import Progress
from fedtag.client.text.node_texts import text_bank
from fedtag.client.train.threads import limited_threads
from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError
from fedtag.common.graph import Adjacency, Graph
from fedtag.common.parts.neighbour_generator.names import GENERATOR_PART
from fedtag.common.secure.names import UNOPENED
from fedtag.common.secure.phases import PROTOCOL
from fedtag.common.wire.records import Content, Instruction, Reply

T = TypeVar("T")

FOLDER_FEATURES = "features.npy"


class Session:
    """One site in one run.

    It may serve a single message or all of a run: everything it holds is derived from the site's folder,
    the settings and the state on disk.

    Args:
        site: where its data and its own files lie.
        config: of the run.
        work: told about long work: what is done, how much of it, of how much.
        classes: those of a model that is to predict, where the folder may have neither labels nor classes.
        past: folder of what the site made in its runs, of which a prediction reads what others added.
    """

    def __init__(
        self,
        site: Site,
        config: RunConfig,
        work: Callable[[str, int, int], None] | None = None,
        classes: Sequence[str] | None = None,
        past: Path | None = None,
    ) -> None:
        self.site = site
        self.work = work
        self.classes = classes
        self.past = past
        self.config = config
        self.timings: dict[str, float] = {}
        self.encoded: dict[str, int] = {"chunks": 0, "tokens": 0}
        self.generator: Mapping[str, Tensor] | None = None
        self._instruction: Instruction | None = None
        self._mailbox: Mailbox | None = None
        self._kept: dict[str, object] = {}

    def respond(self, instruction: Instruction) -> Reply:
        """Carry out an instruction of the run's method."""
        self.timings = {}
        self._instruction = instruction
        self._mailbox = None
        with room(self.site):
            if instruction.phase in PROTOCOL:
                content = answered(instruction, self)
            else:
                # Models bring PyTorch Geometric, which takes seconds to load and which not every start needs.
                from fedtag.client.parts.neighbour_generator.method import method_of

                method = method_of(self.config)
                with limited_threads(self.local_graph.x.numel()):
                    content = guarded(method.respond(instruction, self), instruction, self)
            values, letters = dict(content.values), content.letters
            if self._mailbox is not None:
                letters += tuple(self._mailbox.outgoing)
                if self._mailbox.unopened:
                    values[UNOPENED] = list(self._mailbox.unopened)
                self._mailbox.close()
        values["seconds"] = {phase: round(seconds, 6) for phase, seconds in self.timings.items()}
        if instruction.content.values.get("introduce"):
            values["introduction"] = self.introduction()
        content = Content(content.tensors, values, letters)
        return Reply(
            instruction.run, instruction.step, instruction.round, instruction.phase, self.site.name, content
        )

    @property
    def mailbox(self) -> Mailbox:
        """The letters of this exchange: what peers sent, and what goes to them with the reply.

        Raises:
            ProtocolError: the phase has no letters, or the server tells wrong keys.
        """
        if self._mailbox is None:
            largest = self.config.exchange.max_message_mb * 2**20
            self._mailbox = Mailbox(self.site, self._current(), largest)
        return self._mailbox

    def progress(self, what: str) -> Progress | None:
        """A callback with (done, total) for one kind of long work; None if nobody listens."""
        return None if self.work is None else partial(self.work, what)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the duration of a block to the phase's time in this message."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.timings[phase] = self.timings.get(phase, 0.0) + time.perf_counter() - start

    def introduction(self) -> dict[str, Any]:
        """What all clients must agree upon, and what was encoded, which tells about how many nodes there are."""
        told = {
            "classes": list(self.data.classes),
            "dimension": self.local_graph.x.shape[1],
            "features": self.bank_source,
        }
        if self.config.privacy.hide_statistics:
            return told
        return {
            **told,
            "encoded_chunks": self.encoded["chunks"],
            "encoded_tokens": self.encoded["tokens"],
        }

    @property
    def sizes(self) -> dict[str, int]:
        """Counts of the folder's nodes, which the server needs for weights and pooling."""
        graph = self.local_graph
        return {
            "nodes": graph.num_nodes,
            "train_nodes": int(graph.train_mask.sum()),
            "val_nodes": int(graph.val_mask.sum()),
            "test_nodes": int(graph.test_mask.sum()),
        }

    @cached_property
    def device(self) -> torch.device:
        """The device that computes."""
        name = self.site.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.device(name)

    @cached_property
    def data(self) -> TextGraph:
        """The site's folder; a client without training nodes takes part like any other."""
        with self.timed("load"):
            return read_folder(self.site.folder, require_training=False, classes=self.classes).graph

    @cached_property
    def bank(self) -> TextBank:
        """Chunk and document vectors, encoded or taken from the cache."""
        with self.timed("encode"):
            build = text_bank(
                self.data,
                self.config.text,
                str(self.device),
                self.site.cache,
                self.progress("encoding texts"),
            )
            self.encoded = {"chunks": build.encoded_chunks, "tokens": build.encoded_tokens}
            return build.bank

    @property
    def bank_source(self) -> str:
        """Where features come from; clients with different sources cannot share a model."""
        return FOLDER_FEATURES if self.data.features is not None else f"encoder {self.config.text.encoder}"

    @cached_property
    def local_graph(self) -> Graph:
        """The folder's graph with the node features of a plain backbone, on the device."""
        view = self.config.text.view
        document, chunks = self.bank.document, self.bank.pooled(self.config.text.pool_sharpness)
        features = {"document": document, "chunks": chunks, "both": (document + chunks) / 2}[view]
        return self.data.to_graph(features).to(self.device)

    @cached_property
    def seen_graph(self) -> Graph:
        """The folder's graph as training may see it: without the test nodes' edges if training is inductive."""
        graph = self.local_graph
        return graph.without_edges_of(graph.test_mask) if self.config.train.inductive else graph

    @cached_property
    def graph(self) -> Graph:
        """The full local graph on which models compute: the folder's, with generated neighbours behind its nodes
        where the run has them.

        Raises:
            RunError: the run has them, and nobody has given the session their `generator`.
        """
        if GENERATOR_PART not in self.config.part_names:
            return self.local_graph
        if self.generator is None:
            raise RunError(
                f"the graph of {self.site.name} was needed before its generator of neighbours: the server and this "
                "site have different releases of fedtag; install the same"
            )
        from fedtag.client.parts.neighbour_generator.training import mended_graph

        return mended_graph(self, self.generator)

    @cached_property
    def adjacency(self) -> Adjacency:
        """Propagation over the full local graph, by which models are scored."""
        return self.graph.adjacency()

    @cached_property
    def training_graph(self) -> Graph:
        """The graph that training may see: without the test nodes' edges if training is inductive."""
        return (
            self.graph.without_edges_of(self.graph.test_mask) if self.config.train.inductive else self.graph
        )

    @cached_property
    def training_adjacency(self) -> Adjacency:
        """Propagation over the training graph."""
        return self.training_graph.adjacency() if self.config.train.inductive else self.adjacency

    def kept(self, name: str, build: Callable[[], T]) -> T:
        """A value that the method derives from the site's data, built at first use and kept in memory."""
        if name not in self._kept:
            self._kept[name] = build()
        return cast(T, self._kept[name])

    def derived(self, name: str, build: Callable[[], Remembered]) -> Remembered:
        """What follows from the site's data and the run's settings: built once a run, then kept on disk."""
        store = StateStore(self.site.state, self._current().run)
        found = store.find(name)
        if found is None:
            found = build()
            store.keep(name, found)
        return found

    def remembered(self, part: str = "") -> Remembered | None:
        """What was saved before this step: by the method, or under the name of a part."""
        instruction = self._current()
        return StateStore(self.site.state, instruction.run, part).load_before(instruction.step)

    def remember(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], part: str = "") -> None:
        """Save what is needed at a later step: by the method, or under the name of a part."""
        instruction = self._current()
        StateStore(self.site.state, instruction.run, part).save(
            instruction.round, instruction.step, tensors, values
        )

    @property
    def evidence(self) -> Path:
        """The folder for the evidence of this run; that of an earlier one is put aside first."""
        return evidence_of_run(self.site.evidence, self._current().run)

    def document(self, name: str, text: str) -> None:
        """Leave a text for people beside the run's state, where it stays at the site."""
        StateStore(self.site.state, self._current().run).document(name, text)

    @property
    def responds(self) -> bool:
        """Whether it is part of a run, and not of a prediction by what a run has released."""
        return self._instruction is not None

    @property
    def run(self) -> str:
        """The run of the instruction that is being carried out."""
        return self._current().run

    def _current(self) -> Instruction:
        assert self._instruction is not None, "a session remembers only while it responds"
        return self._instruction
