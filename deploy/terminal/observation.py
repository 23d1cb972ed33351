"""`fedtag status`: one look at a run, or looks until it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.live import Live

from fedtag.deploy.federation.superlink import RegisteredNode, registered_nodes
from fedtag.deploy.serving.asking import ask_service
from fedtag.deploy.terminal.console import results, say
from fedtag.deploy.terminal.service_view import service_view
from fedtag.deploy.terminal.sighting import Sighting, look, newest_run
from fedtag.deploy.terminal.status_view import headline, record, view

LOOK_SECONDS = 1.0
ASK_SECONDS = 15.0
"""Between two questions to a SuperLink, each of which starts a program."""


def show_once(place: Path | None, as_json: bool, superlink: str | None) -> bool:
    """Print a run; returns whether all is well."""
    seen = look(newest_run(place))
    nodes = None if superlink is None else registered_nodes(superlink)
    console = results()
    if as_json:
        say(console, record(seen, nodes))
    else:
        console.print(view(seen, nodes, datetime.now(UTC)))
    return seen.trouble is None


def show_service(port: int, as_json: bool) -> bool:
    """Print a service of this machine; returns whether it is ready."""
    service = ask_service(port)
    console = results()
    if as_json:
        say(console, json.dumps(asdict(service)))
    else:
        console.print(service_view(service))
    return service.ready


def observe(place: Path | None, as_json: bool, superlink: str | None) -> bool:
    """Print a run until it ends; returns whether it ended well.

    A terminal shows the whole view anew, a pipe gets a line for each change.
    """
    folder, console, nodes = newest_run(place), results(), Questions(superlink)
    if console.is_terminal and not as_json:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                seen = look(folder)
                live.update(view(seen, nodes.answer(), datetime.now(UTC)), refresh=True)
                if not seen.going:
                    return seen.trouble is None
                time.sleep(LOOK_SECONDS)
    last = ""
    while True:
        seen = look(folder)
        line = record(seen, nodes.answer()) if as_json else change(seen)
        if line != last:
            say(console, line)
            last = line
        if not seen.going:
            return seen.trouble is None
        time.sleep(LOOK_SECONDS)


def change(seen: Sighting) -> str:
    """A line that differs only where something happened."""
    status = seen.status
    line = headline(status, datetime.fromisoformat(status.updated))
    return line if seen.trouble is None else f"{line}\n{seen.trouble}"


class Questions:
    """What the SuperLink said of its nodes not long ago."""

    def __init__(self, superlink: str | None) -> None:
        self.superlink = superlink
        self._answer: Sequence[RegisteredNode] | None = None
        self._asked = -ASK_SECONDS

    def answer(self) -> Sequence[RegisteredNode] | None:
        """None where there is no SuperLink to be asked."""
        if self.superlink is not None and time.monotonic() - self._asked >= ASK_SECONDS:
            self._answer = registered_nodes(self.superlink)
            self._asked = time.monotonic()
        return self._answer
