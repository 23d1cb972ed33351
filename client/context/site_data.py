"""A site's nodes as its text settings make them: texts, vectors, graphs on the site's device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

from fedtag.client.context.clock import Clock
from fedtag.client.context.progress import Report, progress_of
from fedtag.client.data.assembly import FOLDER_FEATURES
from fedtag.client.data.folder import read_folder
from fedtag.client.data.metadata import is_directed
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.site.site import Site
from fedtag.client.text.bank import BankBuild, TextBank
from fedtag.client.text.encoder import Encoder
from fedtag.client.text.node_texts import text_bank
from fedtag.common.graph import Adjacency, Graph
from fedtag.common.settings.sections import TextConfig
from fedtag.common.wording.features import encoder_features

T = TypeVar("T")


class SiteData:
    """The folder of a site, read once and when first needed.

    It knows no run. Whoever changes what a method sees hands it another one (`with_graph`, `with_features`), with the
    same folder behind it.

    Args:
        site: whose folder is read.
        text: encoder, pooling and view.
        inductive: whether training may not see the edges of test nodes.
        classes: those of a model that is to predict, where the folder may have neither labels nor classes.
        progress: told how far encoding is.
        clock: told how long reading and encoding take.
        on_host: whether the graph waits in the host's memory, from which parts of it go to the device.
    """

    def __init__(
        self,
        site: Site,
        text: TextConfig,
        inductive: bool = False,
        classes: Sequence[str] | None = None,
        progress: Report | None = None,
        clock: Clock | None = None,
        on_host: bool = False,
    ) -> None:
        self.site = site
        self._on_host = on_host
        self._text = text
        self._inductive = inductive
        self._classes = classes
        self._progress = progress
        self._clock = clock or Clock()
        self._cached: dict[Hashable, object] = {}

    @cached_property
    def device(self) -> torch.device:
        """The device that computes."""
        name = self.site.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.device(name)

    @cached_property
    def text_graph(self) -> TextGraph:
        """What the folder holds; a site without training nodes takes part like any other."""
        with self._clock.timed("load"):
            return read_folder(self.site.folder, require_training=False, classes=self._classes).graph

    @property
    def directed(self) -> bool:
        """Whether edges have one direction, for which the description of the folder alone is read."""
        return is_directed(self.site.folder)

    @cached_property
    def features_from(self) -> str:
        """Where features come from; sites with different sources cannot share a model. An encoder is its content."""
        if (self.site.folder / FOLDER_FEATURES).is_file():
            return FOLDER_FEATURES
        return encoder_features(Encoder(self.site.model(self._text.encoder)).revision)

    @property
    def bank(self) -> TextBank:
        """Chunk and document vectors, encoded or taken from the site's cache."""
        return self._build.bank

    @property
    def encoded(self) -> dict[str, int]:
        """How many chunks and tokens had to be encoded."""
        return {"chunks": self._build.encoded_chunks, "tokens": self._build.encoded_tokens}

    @property
    def cached_nodes(self) -> int:
        """How many nodes have a text that was encoded before."""
        return self._build.cached_nodes

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Counts of the folder's own nodes, which the server needs for weights and pooling."""
        graph = self.graph
        return {
            "nodes": graph.num_nodes,
            "train_nodes": int(graph.train_mask.sum()),
            "val_nodes": int(graph.val_mask.sum()),
            "test_nodes": int(graph.test_mask.sum()),
        }

    @cached_property
    def graph(self) -> Graph:
        """The graph on which models compute, with the node features of a plain backbone."""
        document, chunks = self.bank.document, self.bank.pooled(self._text.pool_sharpness)
        features = {"document": document, "chunks": chunks, "both": (document + chunks) / 2}[self._text.view]
        return self.text_graph.to_graph(features).to("cpu" if self._on_host else self.device)

    @cached_property
    def adjacency(self) -> Adjacency:
        """Propagation over the graph."""
        return self.graph.adjacency()

    @cached_property
    def training(self) -> SiteData:
        """The same as training may see it: without the edges of test nodes where training is inductive."""
        if not self._inductive:
            return self
        seen = self.with_graph(self.graph.without_edges_of(self.graph.test_mask))
        seen._inductive = False
        return seen

    @cached_property
    def on_device(self) -> SiteData:
        """The same with the whole graph on the device that computes."""
        return self.with_graph(self.graph.to(self.device)) if self._on_host else self

    def with_graph(self, graph: Graph) -> SiteData:
        """The same site with another graph, in which the folder's own nodes come first."""
        other = SiteData(self.site, self._text, self._inductive, clock=self._clock)
        # What was read is shared; what follows from the graph is not.
        shared = {"text_graph": self.text_graph, "_build": self._build, "sizes": self.sizes}
        vars(other).update(shared, graph=graph)
        return other

    def with_features(self, x: Float[Tensor, "nodes dim"]) -> SiteData:
        """The same site with other features of the nodes."""
        return self.with_graph(self.graph.with_features(x))

    def cached(self, key: Hashable, build: Callable[[], T]) -> T:
        """A value that follows from these data, built at first use; it goes when they go.

        Args:
            key: names the value, and everything beside the data that decides it.
            build: makes it.
        """
        if key not in self._cached:
            self._cached[key] = build()
        return cast(T, self._cached[key])

    @cached_property
    def _build(self) -> BankBuild:
        with self._clock.timed("encode"):
            progress = progress_of(self._progress, "encoding texts")
            encoder = self.site.model(self._text.encoder)
            text = self._text.model_copy(update={"encoder": encoder})
            return text_bank(self.text_graph, text, str(self.device), self.site.cache, progress)
