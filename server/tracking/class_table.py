"""The scores by class that a summary holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from fedtag.common.errors import RunError
from fedtag.common.numerics.scores import ClassScores


@dataclass(frozen=True)
class ClassLine:
    """A class by its name, with its scores."""

    name: str
    scores: ClassScores


def read_classes(record: Sequence[Mapping[str, Any]] | None, where: str) -> tuple[ClassLine, ...]:
    """The classes in a summary, in their order; empty where it has none, as in runs of earlier versions.

    Raises:
        RunError: one is no class with its scores.
    """
    try:
        lines = tuple(
            ClassLine(
                str(entry["class"]),
                ClassScores(**{name: value for name, value in entry.items() if name != "class"}),
            )
            for entry in record or ()
        )
        for line in lines:
            nodes, *scores = astuple(line.scores)
            if nodes < 0 or any(score is not None and not 0 <= score <= 1 for score in scores):
                raise ValueError(f"{line.name!r} has {line.scores}")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{where} holds no classes with nodes and scores ({error}): restore the file"
        ) from error
    return lines
