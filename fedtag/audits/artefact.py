"""What a privacy audit attacks on disk: a released model, a released condensed graph, or both of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.methods.fedgc.names import TEACHER
from fedtag.common.wire.records import Content
from fedtag.server.methods.fedgc.release import FILE, CondensedRelease, read_condensed
from fedtag.server.tracking.release import Release, read_release
from fedtag.server.tracking.run_directory import MODEL, MODEL_CARD, RunDirectory


@dataclass(frozen=True)
class Artefact:
    """What was released; at least one of both.

    Args:
        model: with its card.
        condensed: the graph with its card, and the self-trained model, if there was one.
    """

    model: Release | None
    condensed: CondensedRelease | None

    @property
    def classes(self) -> Sequence[str]:
        """In the order of the outputs."""
        return self.model.card.classes if self.model is not None else self._graph.card.classes

    @property
    def features(self) -> str:
        """Where node features come from."""
        return self.model.card.features if self.model is not None else self._graph.card.features

    @property
    def dimension(self) -> int:
        """Numbers of a node."""
        return self.model.card.dimension if self.model is not None else self._graph.card.dimension

    @property
    def config(self) -> RunConfig:
        """Defaults, but for the settings that decide what is predicted."""
        return self.model.config if self.model is not None else self._graph.config

    @property
    def teacher(self) -> Mapping[str, Tensor]:
        """The self-trained model that comes with either; empty where none does."""
        if self.condensed is not None and self.condensed.teacher:
            return self.condensed.teacher
        return Content(self.model.parameters).section(TEACHER) if self.model is not None else {}

    @property
    def _graph(self) -> CondensedRelease:
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
            raise ConfigError(f"{path} is no release: name a folder with {MODEL}, or a {FILE}")
        return Artefact(None, read_condensed(path))
    graph = read_condensed(path) if (path / FILE).is_file() else None
    if graph is not None and not (path / MODEL_CARD).is_file():
        return Artefact(None, graph)
    return Artefact(read_release(RunDirectory.open_release(path)), graph)
