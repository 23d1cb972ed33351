"""A person's own graph: made of what they have, checked, divided, written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedtag.client.data.assembly import Reading
from fedtag.client.data.folder import inspected_folder
from fedtag.client.data.partition import partition
from fedtag.client.data.problems import Problem, Problems
from fedtag.client.data.pydocs import BRIEF, PYDOCS
from fedtag.client.data.sites import site_graphs
from fedtag.client.data.sources import inspected_arrays, load_source, source_of
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.data.writing import write_folder
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural
from fedtag.graph.frames import EdgeColumns, NodeColumns, drawn_notes, edge_frame, node_frame, read_frames
from fedtag.graph.networks import Frames, network_frames, tensor_frames

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data


class Graph:
    """A graph whose nodes carry texts or features, some of them labels.

    Make one with `from_pandas`, `from_pyg`, `from_networkx`, `from_folder`, `from_npz` or `built_in`. One with faults
    can be looked at with `problems`; whatever needs the graph itself raises a `DataError` with all of them.

    Args:
        reading: what was read; None where something is wrong.
        found: what is wrong.
        source: how the same graph is named on the command line; empty where it is in memory alone.
        notes: sentences on what was done for its maker, such as drawing a split.
    """

    def __init__(
        self,
        reading: Reading | None,
        found: Sequence[Problem] = (),
        source: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        self._reading = reading
        self._found = tuple(found)
        self.source = source
        self.notes = tuple(notes)

    @classmethod
    def from_pandas(
        cls,
        nodes: pd.DataFrame,
        edges: pd.DataFrame,
        *,
        id: str,  # noqa: A002 (what a person would call it)
        text: str | None = None,
        label: str | None = None,
        split: str | None = None,
        src: str | None = None,
        dst: str | None = None,
        weight: str | None = None,
        features: Any = None,
        classes: Sequence[str] | None = None,
        directed: bool = False,
        name: str = "graph",
        seed: int = 0,
    ) -> Graph:
        """A graph of two tables.

        Args:
            nodes: a row a node; columns that are not named are left out.
            edges: a row an edge.
            id: column of unique whole numbers or texts.
            text: column of texts; a node may have none. Without it there must be `features`.
            label: column of classes, empty where a node has none.
            split: column of `train`, `val`, `test`, empty for none of them. Without it 60, 20 and 20% of each class
                are drawn with `seed`.
            src, dst: the columns with the ends' ids; without them those two whose values are ids.
            weight: column of numbers of at least 0; without it every edge weighs 1.
            features: an array [nodes, d] in the order of `nodes`, or names of its columns, used in place of texts.
            classes: all that the federation has, in one order for all its members; those that occur, in the order of
                their category, number or alphabet, where they are not given.
            directed: whether an edge is followed in one direction only.
            name: of the graph, and of the institution where it is one of several.
            seed: of the drawn split.

        Returns:
            the graph; what is wrong with the tables is in its `problems`.

        Example:
            >>> import fedtag, pandas as pd
            >>> nodes = pd.DataFrame({"paper": [1, 2], "abstract": ["On graphs.", "On trees."], "field": ["a", "b"]})
            >>> edges = pd.DataFrame({"from": [1], "to": [2]})
            >>> graph = fedtag.Graph.from_pandas(nodes, edges, id="paper", text="abstract", label="field")
            >>> len(graph), graph.classes
            (2, ('a', 'b'))
        """
        problems = Problems()
        read = read_frames(
            nodes,
            edges,
            NodeColumns(id, text, label, split),
            EdgeColumns(src, dst, weight),
            problems,
            features=features,
            classes=classes,
            directed=directed,
            name=name,
            seed=seed,
        )
        return cls(read[0], problems.found, "", read[1])

    @classmethod
    def from_networkx(
        cls,
        graph: nx.Graph[Any],
        *,
        text: str | None = None,
        label: str | None = None,
        split: str | None = None,
        weight: str | None = None,
        features: str | None = None,
        classes: Sequence[str] | None = None,
        name: str = "graph",
        seed: int = 0,
    ) -> Graph:
        """A graph of NetworkX, whose nodes are ids; directed if it is.

        Args:
            graph: with attributes at its nodes.
            text, label, split, features: names of these attributes; one of features is a vector a node.
            weight: name of an attribute of edges.
            classes, name, seed: as for `from_pandas`.

        Example:
            >>> import fedtag, networkx
            >>> club = networkx.karate_club_graph()
            >>> networkx.set_node_attributes(club, {node: f"member {node}" for node in club}, "text")
            >>> fedtag.Graph.from_networkx(club, text="text", label="club").classes
            ('Mr. Hi', 'Officer')
        """
        problems = Problems()
        attributes = {"text": text, "label": label, "split": split}
        frames = network_frames(graph, attributes, weight, features, classes, problems)
        return cls._of(frames, problems, name, seed)

    @classmethod
    def from_pyg(
        cls,
        data: Data,
        texts: Sequence[str] | None = None,
        *,
        classes: Sequence[str] | None = None,
        name: str = "graph",
        seed: int = 0,
    ) -> Graph:
        """A graph of PyTorch Geometric, whose nodes are called 0, 1, 2, ...

        Its `x` are the features where no texts are given; `y`, `edge_weight` and the masks `train_mask`, `val_mask`
        and `test_mask` are used where they are there. It is undirected if every edge is there in both directions.

        Args:
            data: one graph.
            texts: one a node, in their order; encoded in place of `x`.
            classes, name, seed: as for `from_pandas`; without `classes` they are called by their numbers.
        """
        problems = Problems()
        return cls._of(tensor_frames(data, texts, classes, problems), problems, name, seed)

    @classmethod
    def _of(cls, frames: Frames | None, problems: Problems, name: str, seed: int) -> Graph:
        if frames is None:
            return cls(None, problems.found)
        named = {one: one for one in ("text", "label", "split") if one in frames.nodes}
        return cls.from_pandas(
            frames.nodes,
            frames.edges,
            id="node",
            src="src",
            dst="dst",
            weight="weight",
            features=frames.features,
            classes=frames.classes,
            directed=frames.directed,
            name=name,
            seed=seed,
            **named,
        )

    @classmethod
    def from_folder(cls, path: str | Path) -> Graph:
        """A data folder with nodes, edges and meta.json, as `to_folder` and other programs write it."""
        problems = Problems()
        reading = inspected_folder(path, problems, require_training=False)
        return cls(reading, problems.found, source_of(path), drawn_notes(reading))

    @classmethod
    def from_npz(cls, path: str | Path) -> Graph:
        """A graph of features without texts in one .npz file.

        It holds `x`, dense or as CSR (x_data, x_indices, x_indptr, x_shape), `y` (-1: unlabelled), `edge_index` [2, E]
        with each edge once, and may hold train_mask, val_mask and test_mask; without these a split is drawn.
        """
        problems = Problems()
        reading = inspected_arrays(path, problems)
        return cls(reading, problems.found, source_of(path), drawn_notes(reading))

    @classmethod
    def built_in(cls, whole: bool = False) -> Graph:
        """SciPy's docstrings, linked by their references: first paragraphs, one in ten labelled, or `whole` texts."""
        return cls(load_source(name := PYDOCS if whole else BRIEF), (), name)

    @property
    def text_graph(self) -> TextGraph:
        """What fedtag computes on.

        Raises:
            DataError: with everything that is wrong.
        """
        if self._reading is None:
            raise DataError([str(problem) for problem in self._found])
        return self._reading.graph

    @property
    def name(self) -> str:
        """Of the graph."""
        return self.text_graph.name

    @property
    def classes(self) -> tuple[str, ...]:
        """In the order of a model's outputs."""
        return self.text_graph.classes

    @property
    def nodes(self) -> pd.DataFrame:
        """A row a node: id, text, label, split."""
        return node_frame(self.text_graph)

    @property
    def edges(self) -> pd.DataFrame:
        """A row an edge: ids of its ends, and its weight."""
        return edge_frame(self.text_graph)

    def __len__(self) -> int:
        return self.text_graph.num_nodes

    def __repr__(self) -> str:
        if self._reading is None:
            return f"<fedtag.Graph with {plural(len(self._found), 'problem')}: see problems()>"
        graph = self.text_graph
        counts = {"node": graph.num_nodes, "edge": len(graph.edges), "class": len(graph.classes)}
        said = ", ".join(plural(count, word) for word, count in counts.items())
        repairs = self._reading.repairs
        left_out = repairs.self_loops + repairs.duplicate_edges
        repaired = [f"{left_out} self-loops and repeated edges left out"] if left_out else []
        return f"<fedtag.Graph {graph.name!r}: {'; '.join([said, *repaired, *self.notes])}>"

    def problems(self) -> pd.DataFrame:
        """What is wrong, a row for each kind: where, what, the rows in which it occurs, the remedy."""
        rows = [(one.where, one.what, list(one.rows), one.remedy) for one in self._found]
        return pd.DataFrame(rows, columns=["where", "what", "rows", "remedy"])

    def partition(
        self,
        clients: int,
        by: str = "louvain",
        seed: int = 0,
        overlap: float = 0.0,
        alpha: float = 1.0,
    ) -> list[Graph]:
        """The graphs of simulated institutions; edges between them are known at both ends.

        Args:
            clients: how many.
            by: louvain, metis, random or dirichlet, or the path of a published partition, as `data.partition`.
            seed: of the draw.
            overlap: copies of others' nodes, as a share of own ones.
            alpha: of Dirichlet's distribution: small is uneven.

        Raises:
            ConfigError: the graph cannot be divided so.
            DataError: something is wrong with the graph.
        """
        graph = self.text_graph
        rows = partition(graph, by, clients, seed, alpha=alpha)
        return [Graph(Reading(one), (), "", self.notes) for one in site_graphs(graph, rows, overlap, seed)]

    def to_folder(self, path: str | Path) -> Path:
        """Write the graph as a data folder, which a site, the command line and `from_folder` read.

        Raises:
            DataError: something is wrong with the graph, or something else is at that place.
        """
        return write_folder(self.text_graph, path)
