"""What a privacy audit attacks on disk: a released model, a released condensed graph, or both of one run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors

from common.config import RunConfig, flatten
from common.errors import ConfigError, RunError
from common.synthetic.condensed import Condensed
from common.wire.records import Content
from server.tracking.release import Release, read_release
from server.tracking.run_directory import MODEL, MODEL_CARD, RunDirectory

CONDENSED = "condensed.safetensors"
HEADER = "fedtag"
GRAPH = "graph"
SHARED_SETTINGS = ("seed", "model", "text")


@dataclass(frozen=True)
class CondensedGraph:
    """A released condensed graph, and what its file says of it.

    Args:
        graph: the graph.
        classes: names by the values of y.
        features: where the clients' features come from.
        settings: of the run, tables of settings.
    """

    graph: Condensed
    classes: tuple[str, ...]
    features: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Artefact:
    """What was released; at least one of both.

    Args:
        model: with its card.
        condensed: the graph.
    """

    model: Release | None
    condensed: CondensedGraph | None

    @property
    def classes(self) -> Sequence[str]:
        """In the order of the outputs."""
        return self.model.card.classes if self.model is not None else self._graph.classes

    @property
    def features(self) -> str:
        """Where node features come from."""
        return self.model.card.features if self.model is not None else self._graph.features

    @property
    def dimension(self) -> int:
        """Numbers of a node."""
        return self.model.card.dimension if self.model is not None else self._graph.graph.x.shape[1]

    @property
    def config(self) -> RunConfig:
        """Defaults, but for the settings that decide what is predicted."""
        if self.model is not None:
            return self.model.config
        known = {name: self._graph.settings[name] for name in SHARED_SETTINGS if name in self._graph.settings}
        return RunConfig.from_flat(flatten(known))

    @property
    def _graph(self) -> CondensedGraph:
        assert self.condensed is not None
        return self.condensed


def read_artefact(path: Path) -> Artefact:
    """What lies in a run directory or another folder, or the condensed graph of a file.

    Raises:
        ConfigError: a file that is no condensed graph was named.
        RunError: nothing was released there, or it is damaged.
    """
    if path.is_file():
        if path.suffix != ".safetensors":
            raise ConfigError(f"{path} is no release: name a folder with {MODEL}, or a {CONDENSED}")
        return Artefact(None, read_condensed(path))
    graph = read_condensed(path / CONDENSED) if (path / CONDENSED).is_file() else None
    if graph is not None and not (path / MODEL_CARD).is_file():
        return Artefact(None, graph)
    return Artefact(read_release(RunDirectory.open_release(path)), graph)


def read_condensed(path: Path) -> CondensedGraph:
    """The condensed graph of a file: tensors `graph/x`, `graph/y`, `graph/edge_index` and `graph/edge_weight`, and
    in its header, as JSON, the names of the classes, where features come from, and settings.

    Raises:
        RunError: the file is damaged or something else.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as opened:
            card = json.loads((opened.metadata() or {})[HEADER])
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        graph = Condensed.from_tensors(Content(tensors).section(GRAPH), copies=False)
        classes = tuple(map(str, card["classes"]))
        if graph.num_nodes != graph.y.numel() or int(graph.y.max()) >= len(classes):
            raise ValueError("its labels do not fit its nodes or classes")
        return CondensedGraph(graph, classes, str(card["features"]), dict(card["settings"]))
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise RunError(
            f"{path} is no condensed graph of fedtag, or is damaged ({error}); restore it from the run"
        ) from error
