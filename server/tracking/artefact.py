"""What a method releases beside the model: how it is written and read, and what a run keeps of it for audits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS, MethodSpec

STATES = "states"
"""The folder of a run directory in which a method keeps states of its rounds."""


@dataclass(frozen=True)
class About:
    """What is known of a release, beside its tensors.

    Args:
        config: of the run.
        round: after which it was taken.
        classes: names by their numbers.
        dimension: of the node features.
        features: where these come from.
    """

    config: RunConfig
    round: int
    classes: tuple[str, ...]
    dimension: int
    features: str


@dataclass(frozen=True)
class Beside:
    """What was released beside a model, as it is read.

    Args:
        about: what is known of it.
        tensors: as the method gave them.
        digest: of all of it, SHA-256 in hexadecimal.
    """

    about: About
    tensors: Mapping[str, Tensor]
    digest: str


class Artefact(Protocol):
    """What `artefact` of a specification names; its tensors are those of `condensed` and `history` of the method.

    `files`: names in a run directory; the first is the file that can be passed on alone.
    """

    files: tuple[str, ...]

    def write(self, directory: Path, tensors: Mapping[str, Tensor], about: About) -> None:
        """Write the files of a release into a run directory."""
        ...

    def is_at(self, path: Path) -> bool:
        """Whether a path is such a release, or a folder that holds one."""
        ...

    def read(self, path: Path) -> Beside:
        """The release of a file, or of the folder that holds it.

        Raises:
            RunError: there is none, or it is damaged, changed or of another version.
        """
        ...

    def write_audit(self, folder: Path, path: Path, record: Mapping[str, Any]) -> Path:
        """Say in the release's card in a folder what an audit of it found, and return the file."""
        ...

    def keep_state(self, directory: Path, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep in a run directory what could have been released after a round; done again, it replaces itself."""
        ...

    def states(self, directory: Path, about: About) -> Sequence[tuple[int, Mapping[str, Tensor]]]:
        """What was kept, by round; nothing if nothing was.

        Raises:
            RunError: a state is damaged, or of another run.
        """
        ...


def artefact_at(path: Path) -> Artefact | None:
    """What knows how to read a path as something that was released beside a model; None without any."""
    kinds = [artefact_of(method) for method in METHODS.usable().values() if method.artefact]
    return next((kind for kind in kinds if kind.is_at(path)), None)


def artefact_of(method: MethodSpec) -> Artefact:
    """What a method releases beside the model.

    Raises:
        ConfigError: its specification names nothing, or what cannot be imported.
    """
    if not method.artefact:
        package = METHODS.origin(method.name).package
        raise ConfigError(
            f"method {method.name} of {package} gives tensors to release beside the model, and its specification does "
            "not say how they are written: name an `artefact` in it"
        )
    return cast(Artefact, METHODS.resolved(method, method.artefact))
