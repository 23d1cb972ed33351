"""The trackers of a run: found before it begins, told of it, and left behind where they fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.logs import Event, fields
from fedtag.common.settings.lists import listed
from fedtag.common.settings.sections import TrackingConfig
from fedtag.server.tracking.row_objects import row_to_object
from fedtag.server.tracking.rows import RoundRow, Summary
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.trackers.scalars import round_scalars
from fedtag.server.tracking.trackers.spec import TRACKERS, Opened, TrackedRun, Tracker, TrackerSpec

SECRET = re.compile(r"//[^/@\s]+@")
"""Name and password of a server in an address."""

Note = Callable[[str, Mapping[str, Any]], None]


def chosen_trackers(tracking: TrackingConfig) -> tuple[TrackerSpec, ...]:
    """The trackers that settings name; none is opened.

    Raises:
        ConfigError: one is unknown, named twice, or lacks something that must be installed.
    """
    names = listed(tracking.trackers, "tracking.trackers")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"tracking.trackers = {tracking.trackers}: {min(twice)} stands twice, name it once")
    specs = tuple(TRACKERS.get(name) for name in names)
    for spec in specs:
        for module, remedy in spec.needs.items():
            if find_spec(module) is None:
                raise ConfigError(
                    f"tracking.trackers = {tracking.trackers}: {spec.name} needs {module}, which is not installed: "
                    f"{remedy}, or leave it out"
                )
    return specs


def trackers_of(config: RunConfig, directory: RunDirectory, run: str, done: int, note: Note) -> Trackers:
    """Those of a run; of one that extends another they are told that one's rounds first.

    Args:
        config: of the run.
        directory: with the rows of the rounds so far.
        run: its identifier.
        done: complete rounds.
        note: tells a person.
    """
    extends = config.extends(done)
    first = None if extends else done or None
    tracked = TrackedRun(run, directory.path, config.without_places().to_flat(), first)
    before = directory.read_rounds() if extends else []
    return Trackers(chosen_trackers(config.tracking), tracked, note, before)


class Trackers:
    """Those of one run. One that raises is told once, by its name, and hears no more; the run goes on.

    Args:
        specs: of the trackers.
        run: that they are told of.
        note: tells a person.
        before: rounds that they are told when they are opened.
    """

    def __init__(
        self, specs: tuple[TrackerSpec, ...], run: TrackedRun, note: Note, before: Sequence[RoundRow] = ()
    ) -> None:
        self._specs = specs
        self._run = run
        self._note = note
        self._before = before
        self._open: dict[str, Tracker] = {}

    def __enter__(self) -> Trackers:
        for spec in self._specs:
            self._tried(spec.name, partial(self._opened, spec))
        for row in self._before:
            self.scored(row)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(None)

    def scored(self, row: RoundRow) -> None:
        """A round is complete."""
        scalars = round_scalars(row)
        for name, tracker in list(self._open.items()):
            self._tried(name, partial(tracker.log, row.round, scalars))

    def finished(self, summary: Summary) -> None:
        """The run is over."""
        self._close(row_to_object(summary))

    def _opened(self, spec: TrackerSpec) -> None:
        opened: Opened = TRACKERS.resolved(spec, spec.opened)
        self._open[spec.name] = opened(self._run)

    def _close(self, summary: Mapping[str, Any] | None) -> None:
        for name, tracker in list(self._open.items()):
            self._tried(name, partial(tracker.close, summary))
        self._open = {}

    def _tried(self, name: str, act: Callable[[], None]) -> None:
        try:
            act()
        # Whatever goes wrong in a stranger's code or at a server far away, no round may be lost for it.
        except Exception as error:
            self._open.pop(name, None)
            said = SECRET.sub("//", str(error))
            self._note(
                f"tracker {name} of {TRACKERS.origin(name).package} failed and hears no more of this run "
                f"({type(error).__name__}: {said}); the run directory has all that it would have been told",
                fields(Event.TRACKER, tracker=name, error=type(error).__name__),
            )
