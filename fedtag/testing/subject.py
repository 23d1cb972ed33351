"""What is checked: settings of a run, and tiny federations that are made with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedtag.common.config import RunConfig
from fedtag.graph.graph import Graph
from fedtag.runs.interface import simulate
from fedtag.runs.run import Run

CLASSES = ("a", "b", "c")
NODES = 24
ROUNDS = 2
WIDTH = 6


def tiny_graph(name: str = "plain", nodes: int = NODES, seed: int = 0) -> Graph:
    """A graph of features, whose classes are easy to tell, with nodes of each class in each split.

    Args:
        name: of the institution.
        nodes: at least 1.
        seed: of features and edges.
    """
    generator = np.random.default_rng(seed)
    labels = np.arange(nodes) % len(CLASSES)
    features = generator.standard_normal((nodes, WIDTH)).astype(np.float32)
    features[np.arange(nodes), labels] += 2
    splits = np.array(["train", "train", "val", "test"])[(np.arange(nodes) // len(CLASSES)) % 4]
    table = pd.DataFrame({"id": np.arange(nodes), "label": np.array(CLASSES)[labels], "split": splits})
    ends = generator.integers(0, nodes, (3 * nodes, 2))
    edges = pd.DataFrame(ends[labels[ends[:, 0]] == labels[ends[:, 1]]], columns=["src", "dst"])
    return graph_of(table, edges, features, name)


def graph_of(table: pd.DataFrame, edges: pd.DataFrame, features: Any, name: str) -> Graph:
    """A graph of tables with the columns of `tiny_graph`."""
    return Graph.from_pandas(
        table, edges, id="id", label="label", split="split", src="src", dst="dst", features=features,
        classes=CLASSES, name=name,
    )  # fmt: skip


def odd_graphs() -> list[Graph]:
    """Institutions that lack something, as real ones do."""
    plain, edges = tiny_graph(), tiny_graph().edges
    table, features = plain.nodes, plain.text_graph.features
    untrained = table.assign(split=table["split"].where(table["split"] != "train"))
    unscored = table.assign(split=table["split"].where(table["split"] == "train"))
    return [
        plain,
        graph_of(untrained, edges, features, "no-training-node"),
        graph_of(table.assign(label="b"), edges, features, "one-class"),
        graph_of(table, edges.iloc[:0], features, "isolated-nodes"),
        graph_of(unscored, edges, features, "nothing-to-score"),
        tiny_graph("single-node", 1),
    ]


@dataclass
class Subject:
    """What is checked.

    Args:
        what: how a person calls it.
        settings: that choose it.
        folder: for runs.
    """

    what: str
    settings: Mapping[str, Any]
    folder: Path
    _runs: int = field(default=0, repr=False)

    @property
    def config(self) -> RunConfig:
        """Of its runs."""
        return RunConfig.from_flat(self.flat(2))

    def flat(self, clients: int, **changes: Any) -> dict[str, Any]:
        """Settings of a run of some clients; dotted keys have double underscores for points."""
        small = {"rounds": ROUNDS, "model.hidden": 8, "device": "cpu", "ratio": 0.5, "clients": clients}
        changed = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
        return {**small, **self.settings, **changed}

    def graphs(self) -> list[Graph]:
        """Two institutions, or one that holds all where the method wants it so."""
        count = 1 if RunConfig.from_flat(dict(self.settings)).spec.traits.pooled else 2
        return [tiny_graph(f"site-{seed}", seed=seed) for seed in range(count)]

    def place(self) -> Path:
        """A new run directory."""
        self._runs += 1
        return self.folder / f"run-{self._runs}"

    def run(self, graphs: Sequence[Graph] | None = None, **changes: Any) -> Run:
        """A run over some institutions."""
        graphs = self.graphs() if graphs is None else list(graphs)
        flat = self.flat(len(graphs), **changes)
        return simulate(graphs, flat.pop("method"), settings=flat, out=self.place(), progress=False)


def same_models(one: Run, other: Run, tolerance: float = 0.0) -> bool:
    """Whether two runs released the same parameters, or parameters as near as `tolerance`."""
    first, second = one.model, other.model
    shapes = [{name: value.shape for name, value in model.items()} for model in (first, second)]
    if shapes[0] != shapes[1]:
        return False
    return all(bool(((value - second[name]).abs() <= tolerance).all()) for name, value in first.items())
