"""The condensed graph as what a run releases beside the model of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.fedgc.stages import teaching_rounds
from fedtag.server.methods.fedgc.release import (
    CARD,
    FILE,
    CondensedCard,
    CondensedRelease,
    read_condensed,
    write_condensed,
)
from fedtag.server.methods.fedgc.states import keep_state
from fedtag.server.tracking.artefact import About
from fedtag.server.tracking.release import released_settings


class CondensedGraph:
    """A condensed graph, with its card for people; see `Artefact`."""

    files = (FILE, CARD)

    def write(self, directory: Path, tensors: Mapping[str, Tensor], about: About) -> None:
        card = CondensedCard(
            round=about.round,
            rounds=about.round - teaching_rounds(about.config.own(FedGCConfig)),
            ratio=about.config.ratio,
            classes=about.classes,
            dimension=about.dimension,
            features=about.features,
            settings=released_settings(about.config),
        )
        write_condensed(directory, tensors, card)

    def keep_state(self, directory: Path, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        keep_state(directory, round_number, tensors)

    def is_at(self, path: Path) -> bool:
        return (path / FILE).is_file() or (path.is_file() and path.suffix == Path(FILE).suffix)

    def read(self, path: Path) -> CondensedRelease:
        return read_condensed(path)


ARTEFACT = CondensedGraph()
