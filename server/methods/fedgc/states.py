"""What a run keeps of its scored rounds, so that an audit can attack more than what was released in the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError, WireError
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.tensors import tensor_bytes, tensors_of
from fedtag.common.wire.records import Content
from fedtag.server.methods.fedgc.release import GRAPH, TEACHER, check_teacher
from fedtag.server.tracking.artefact import STATES
from fedtag.server.tracking.durable_files import write_atomically

FOLDER = STATES
FILE_NAME = re.compile(r"round-(\d+)\.safetensors")


@dataclass(frozen=True)
class EarlierState:
    """What could have been released after a round.

    Args:
        round: in which it was scored.
        graph: the condensed graph as it stood; None while the self-trained model was being learned.
        teacher: parameters of that model in such a round; empty in all others, which leave it as it is.
    """

    round: int
    graph: Condensed | None
    teacher: Mapping[str, Tensor]


def keep_state(run: Path, round_number: int, tensors: Mapping[str, Tensor]) -> None:
    """Write the state of a round; a round that is done again replaces it.

    Args:
        run: a run directory.
        round_number: at least 1.
        tensors: "graph/..." of a condensed graph, or "teacher/..." of the self-trained model.
    """
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"round-{round_number:04d}.safetensors", tensor_bytes(tensors))


def read_states(run: Path, config: RunConfig, dimension: int, classes: int) -> tuple[EarlierState, ...]:
    """The states that a run kept, by round; empty if it kept none.

    Args:
        run: a run directory.
        config: as far as it decides what the run's models are.
        dimension: of the features.
        classes: their number.

    Raises:
        RunError: one is damaged, or not of such a run.
    """
    found = ((FILE_NAME.fullmatch(path.name), path) for path in (run / FOLDER).glob("*"))
    return tuple(
        _read(path, number, config, dimension, classes)
        for number, path in sorted((int(match[1]), path) for match, path in found if match)
    )


def _read(path: Path, round_number: int, config: RunConfig, dimension: int, classes: int) -> EarlierState:
    try:
        content = Content(tensors_of(path.read_bytes()))
        graph, teacher = content.section(GRAPH), content.section(TEACHER)
        if not graph and not teacher:
            raise WireError("it holds neither a condensed graph nor a self-trained model")
        condensed = Condensed.foreign(graph, dimension, classes) if graph else None
        check_teacher(teacher, config, dimension, classes)
    except (ValueError, WireError) as error:
        raise RunError(
            f"{path} is damaged, or of another run ({error}): restore this file, or remove it to audit the other rounds"
        ) from error
    return EarlierState(round_number, condensed, teacher)
