"""A service on the terminal: its programs, what they do and since when, and what is stuck."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedtag.common.wording.visible import visible_line
from fedtag.deploy.serving.asking import ServiceState
from fedtag.server.pages.wording import duration

STYLES = {"working": "green", "idle": "green", "running": "green", "starting": "yellow", "waiting": "red"}


def service_view(service: ServiceState) -> RenderableType:
    """All that a person wants to see of a service."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("program", "state", "at", "runs for", "started again", "ended last"):
        table.add_column(name, overflow="fold")
    for one in service.programs:
        table.add_row(
            one.name,
            Text(one.state, STYLES.get(one.state, "")),
            Text(visible_line(one.detail)),
            duration(round(one.seconds)) if one.running else "not running",
            str(one.restarts),
            Text(visible_line(one.ended)),
        )
    head = f"{service.service} {visible_line(service.name)}".rstrip() + (
        ", ready" if service.ready else ", not ready"
    )
    parts: list[RenderableType] = [Text(head, "bold"), table]
    if service.trouble:
        parts += ["", Text(visible_line(service.trouble), "red")]
    return Group(*parts)
