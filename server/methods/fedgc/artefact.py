"""The condensed graph as what a run releases beside the model of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.fedgc.stages import teaching_rounds
from fedtag.common.wire.records import prefixed
from fedtag.server.methods.fedgc.release import (
    CARD,
    FILE,
    GRAPH,
    TEACHER,
    CondensedCard,
    read_condensed,
    write_card,
    write_condensed,
)
from fedtag.server.methods.fedgc.states import keep_state, read_states
from fedtag.server.tracking.artefact import About, Beside
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

    def read(self, path: Path) -> Beside:
        found = read_condensed(path)
        card = found.card
        about = About(found.config, card.round, card.classes, card.dimension, card.features)
        return Beside(about, found.tensors, card.digest)

    def write_audit(self, folder: Path, path: Path, record: Mapping[str, Any]) -> Path:
        return write_card(folder, read_condensed(path), record)

    def states(self, directory: Path, about: About) -> Sequence[tuple[int, Mapping[str, Tensor]]]:
        return [
            (
                state.round,
                {
                    **prefixed(GRAPH, {} if state.graph is None else state.graph.tensors),
                    **prefixed(TEACHER, state.teacher),
                },
            )
            for state in read_states(directory, about.config, about.dimension, len(about.classes))
        ]


ARTEFACT = CondensedGraph()
