"""What a tracker is: something outside of a run directory that is told the numbers of a run while it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fedtag.common.settings.registry import Reference, Registry, Spec


class Tracker(Protocol):
    """Told of one run, or of one part of it where it is resumed; whatever it raises, the run goes on without it."""

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Numbers of a round, such as `accuracy/val` in [0, 1] or `seconds/round`; after a resumption some again."""
        ...

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Nothing follows.

        Args:
            summary: as in summary.json; None where the run stopped before its end.
        """
        ...


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker learns of a run before its first numbers: nothing of single institutions.

    Args:
        run: its identifier, the same after a resumption.
        folder: the run directory.
        settings: by dotted key, without places of this machine.
        first_round: whose numbers come first where the run was resumed; None for one that begins.
    """

    run: str
    folder: Path
    settings: Mapping[str, bool | int | float | str]
    first_round: int | None = None


Opened = Callable[[TrackedRun], Tracker]


@dataclass(frozen=True, kw_only=True)
class TrackerSpec(Spec):
    """A tracker. Where its server is, and who may write there, it has from the environment of the coordinator.

    Args:
        opened: reference to a function from a `TrackedRun` to a `Tracker`, an `Opened`.
        needs: modules that it imports and fedtag does not bring, and how each is installed.
    """

    opened: Reference
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def references(self) -> tuple[Reference, ...]:
        return (self.opened,)

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if self.settings is not None:
            yield "has settings, which would go to every institution: take them from the environment"


TRACKERS = Registry("fedtag.trackers", "tracker", "tracking.trackers", TrackerSpec)
