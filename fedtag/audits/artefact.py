"""What a privacy audit attacks on disk: a released model, what was released beside one, or both of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from fedtag.common.errors import ConfigError
from fedtag.server.tracking.artefact import About, Beside, artefact_at
from fedtag.server.tracking.release import Release, read_release
from fedtag.server.tracking.run_directory import MODEL, MODEL_CARD, RunDirectory


@dataclass(frozen=True)
class Released:
    """What was released; at least one of both.

    Args:
        model: with its card.
        beside: what can be passed on without the model.
    """

    model: Release | None
    beside: Beside | None

    @property
    def about(self) -> About:
        """What is known of it."""
        if self.model is not None:
            card = self.model.card
            return About(self.model.config, card.round, card.classes, card.dimension, card.features)
        assert self.beside is not None
        return self.beside.about

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All but the parameters of the model itself, by section."""
        parameters = {} if self.model is None else self.model.parameters
        more = {name: value for name, value in parameters.items() if "/" in name}
        return {**more, **({} if self.beside is None else self.beside.tensors)}


def read_released(path: Path) -> Released:
    """What lies in a run directory or another folder, or in a file that was passed on.

    Raises:
        ConfigError: a file that is no release was named.
        RunError: nothing was released there, or it is damaged.
    """
    kind = artefact_at(path)
    beside = None if kind is None else kind.read(path)
    if path.is_file():
        if beside is None:
            raise ConfigError(f"{path} is no release: name a folder with {MODEL}, or the file of a release")
        return Released(None, beside)
    if beside is not None and not (path / MODEL_CARD).is_file():
        return Released(None, beside)
    return Released(read_release(RunDirectory.open_release(path)), beside)
