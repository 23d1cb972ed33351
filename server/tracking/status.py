"""status.json: where a run stands at this moment, for people and programs that watch it.

It is replaced whenever something happens, and never read by the run itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from fedtag.common.errors import RunError
from fedtag.server.tracking.durable_files import encoded, json_text, read_object, write_atomically

STATUS = "status.json"

State = Literal["waiting for clients", "training", "closing", "finished", "stopped"]
ENDED: frozenset[State] = frozenset({"finished", "stopped"})
ClientState = Literal["online", "asked", "working", "answered", "failed", "offline"]
AWAITED: frozenset[ClientState] = frozenset({"asked", "working"})
INVOLVED: frozenset[ClientState] = AWAITED | {"answered", "failed"}
"""States of clients that take part in the exchange that goes on."""


@dataclass(frozen=True)
class ClientStatus:
    """One client.

    Args:
        node: Flower's number of it, in digits.
        name: the site's own; None until it has introduced itself.
        state: asked until its reply comes, or until it says that it works; failed or answered until it is asked again.
        phase: what it was asked for last.
        last_contact: UTC, when its last reply or sign came, or when it was first seen online.
        failures: how many of its answers were missing, errors, or of no use.
        last_failure, last_failure_at: the reason of the last of them, and when.
        working_since: UTC, when its present work began, if it is known to be at work.
        percent: of the present piece of that work, 0 to 100, if it says so.
    """

    node: str
    name: str | None
    state: ClientState
    phase: str | None = None
    last_contact: str | None = None
    failures: int = 0
    last_failure: str | None = None
    last_failure_at: str | None = None
    working_since: str | None = None
    percent: int | None = None


@dataclass(frozen=True)
class RunStatus:
    """A run.

    Times are UTC, in ISO 8601. Bytes are those on the wire since the run began, before a resumption included.

    Args:
        run: the run's own identifier.
        state: a run that was killed keeps the last one; `pid` and `updated` tell.
        reason: why it stopped.
        round: complete rounds; `rounds` of the whole run.
        current: the round that goes on, from 1; rounds + 1 is the closing exchange.
        phase, since, deadline: the exchange that goes on, and its end at the latest as known by now; None between two.
        wanted: clients that the run waits for.
        seconds_per_round: the median.
        expected_end: from that median; None before the first round is over.
        val_accuracy: of the last scored model, a fraction.
        flower_run: Flower's number of the run; None where Flower has not started it.
        host, pid: of the process that trains.
        started: that process's part of the run.
        updated: when this was written; while replies are awaited at least every ten seconds.
    """

    run: str
    method: str
    state: State
    round: int
    rounds: int
    wanted: int
    host: str
    pid: int
    started: str
    updated: str
    clients: tuple[ClientStatus, ...] = ()
    reason: str | None = None
    current: int | None = None
    phase: str | None = None
    since: str | None = None
    deadline: str | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    seconds_per_round: float | None = None
    expected_end: str | None = None
    val_accuracy: float | None = None
    flower_run: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the process that trained has said its last word."""
        return self.state in ENDED


def write_status(folder: Path, status: RunStatus) -> None:
    """Replace status.json; who reads meanwhile sees the old one or the new one."""
    text = json_text(asdict(status), STATUS, indent=1) + "\n"
    write_atomically(folder / STATUS, encoded(text), durable=False)


def safe(rounds: int) -> str:
    """What a run that stopped has kept.

    Args:
        rounds: that were complete.
    """
    return "Complete rounds are safe" if rounds else "No round is complete yet"


def read_status(folder: Path) -> RunStatus | None:
    """The status; None where the run has not written one, as earlier releases do not.

    Raises:
        RunError: the file is damaged.
    """
    record = read_object(folder / STATUS)
    if record is None:
        return None
    try:
        clients = tuple(ClientStatus(**_known(ClientStatus, client)) for client in record.get("clients", ()))
        return RunStatus(**{**_known(RunStatus, record), "clients": clients})
    except (TypeError, AttributeError) as error:
        raise RunError(f"{folder / STATUS} is no status of a run ({error}); remove the file") from error


def _known(kind: type, record: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(kind)}
    return {name: value for name, value in record.items() if name in names}


def moment(time: datetime) -> str:
    """A time in the file's form."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
