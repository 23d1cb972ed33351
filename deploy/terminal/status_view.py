"""A run on the terminal: a line of the run, a table of its clients, what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedtag.common.wording.visible import visible_line
from fedtag.deploy.federation.superlink import RegisteredNode
from fedtag.deploy.terminal.sighting import Sighting
from fedtag.server.pages.wording import duration, size
from fedtag.server.state.progress import percentage
from fedtag.server.tracking.status import AWAITED, INVOLVED, ClientStatus, RunStatus

STYLES = {
    "failed": "red",
    "offline": "red",
    "asked": "yellow",
    "working": "yellow",
    "answered": "green",
    "online": "green",
}
_NONE = "–"


def view(seen: Sighting, nodes: Sequence[RegisteredNode] | None, now: datetime) -> RenderableType:
    """All that a person wants to see of a run.

    Args:
        seen: the run.
        nodes: of the SuperLink; None where it was not asked.
        now: to which ages refer.
    """
    status = seen.status
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in facts_of(seen, now).items():
        facts.add_row(name, text(value))
    parts: list[RenderableType] = [text(headline(status, now), "bold"), facts]
    if status.clients or nodes:
        parts += ["", clients_table(status.clients, nodes, now)]
    if seen.trouble:
        parts += ["", text(seen.trouble, "red")]
    return Group(*parts)


def headline(status: RunStatus, now: datetime) -> str:
    """Method, round, and what goes on, in a line."""
    doing = {"closing": "closing exchange"}.get(status.state, status.state)
    if status.state == "waiting for clients":
        online = sum(client.state != "offline" for client in status.clients)
        doing = f"waiting for clients, {online} of {status.wanted} online"
    elif status.phase is not None:
        asked = [client for client in status.clients if client.state in INVOLVED]
        awaited = sum(client.state in AWAITED for client in asked)
        round_now = "" if status.state == "closing" else f"round {status.current}, "
        doing = (
            f"{round_now}{status.phase}: {len(asked) - awaited} of {len(asked)} answered in {ago(status.since, now)}, "
            f"at most {ago(status.deadline, now)} more"
        )
    return f"{status.method}, {status.round} of {status.rounds} rounds complete, {doing}"


def facts_of(seen: Sighting, now: datetime) -> dict[str, str]:
    """The figures of a run in words."""
    status = seen.status
    in_flower = f", in Flower {status.flower_run}" if status.flower_run else ""
    facts = {
        "directory": str(seen.folder),
        **({"run": f"{status.run}{in_flower}"} if status.run else {}),
        "bytes": f"{size(status.bytes_up)} up, {size(status.bytes_down)} down",
        "round": f"{duration(status.seconds_per_round)} (median)",
        "validation accuracy": percentage(status.val_accuracy),
    }
    if seen.going:
        end = status.expected_end
        facts["end"] = (
            _NONE if end is None else f"in {ago(end, now)}, about {end} UTC".replace("Z UTC", " UTC")
        )
        facts["process"] = f"{status.pid} on {status.host}"
    if not status.ended:
        facts["heard"] = f"{ago(status.updated, now)} ago"
    return facts


def clients_table(
    clients: Sequence[ClientStatus], nodes: Sequence[RegisteredNode] | None, now: datetime
) -> Table:
    """One row a client, and with a SuperLink one a node that the run has not met."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    registered = {node.node: node for node in nodes or ()}
    columns = ["client", "node", "state", "phase", "last contact", "failures", "last failure"]
    for name in columns[:2] + ["SuperLink"] * (nodes is not None) + columns[2:]:
        table.add_column(name, overflow="fold", justify="right" if name == "failures" else "left")
    for client in clients:
        known = registered.pop(client.node, None)
        failure = _NONE if client.last_failure is None else client.last_failure
        if client.last_failure_at is not None:
            failure = f"{ago(client.last_failure_at, now)} ago: {failure}"
        cells = [
            text(doing(client, now), STYLES[client.state]),
            text(client.phase or _NONE),
            text(_NONE if client.last_contact is None else f"{ago(client.last_contact, now)} ago"),
            text(str(client.failures)),
            text(failure),
        ]
        table.add_row(text(client.name or _NONE), text(client.node), *online(known, nodes, now), *cells)
    for node in registered.values():
        table.add_row(text(_NONE), text(node.node), *online(node, nodes, now), text("not in the run"))
    return table


def doing(client: ClientStatus, now: datetime) -> str:
    """The state of a client, and of one at work since when, and how far."""
    if client.working_since is None:
        return client.state
    share = "" if client.percent is None else f", {client.percent}%"
    return f"{client.state} for {ago(client.working_since, now)}{share}"


def online(node: RegisteredNode | None, nodes: Sequence[RegisteredNode] | None, now: datetime) -> list[Text]:
    """The cell of the SuperLink's column, if there is one."""
    if nodes is None:
        return []
    if node is None:
        return [text("unknown", "red")]
    since = f" for {ago(node.since, now)}" if node.status in ("online", "offline") else ""
    return [text(f"{node.status}{since}", "green" if node.status == "online" else "red")]


def record(seen: Sighting, nodes: Sequence[RegisteredNode] | None) -> str:
    """The same for programs: status.json, what was seen, and the SuperLink's nodes, in one line of JSON."""
    more: Mapping[str, Any] = {} if nodes is None else {"superlink": [asdict(node) for node in nodes]}
    told = {"directory": str(seen.folder), "going": seen.going, "trouble": seen.trouble}
    return json.dumps({**told, **asdict(seen.status), **more})


def ago(time: str | None, now: datetime) -> str:
    """How far a time is from now, on whichever side."""
    if time is None:
        return _NONE
    try:
        then = datetime.fromisoformat(time.replace(" ", "T"))
    except ValueError:
        return _NONE
    return duration(round(abs((now - then.replace(tzinfo=then.tzinfo or UTC)).total_seconds())))


def text(value: str, style: str = "") -> Text:
    """Foreign names as they are, without what could steer the terminal."""
    return Text(visible_line(value), style=style)
