"""What a site says while it works, and how the server asks for the answer then: small records without tensors.

Nothing here imports torch: what passes them on at a site has little else to do.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from fedtag.common.errors import WireError
from fedtag.common.wire.bounded_json import parsed
from fedtag.common.wire.limits import MAX_SIGN_BYTES
from fedtag.common.wire.serialised import Serialised

WorkState = Literal["queued", "working", "lost"]
JOB = re.compile(r"[0-9a-f]{64}")
LONGEST_SECONDS = 10**9


@dataclass(frozen=True)
class Collect:
    """From the server to a client: the answer to an instruction that is in work there.

    Args:
        run, step, round, phase: of the instruction.
        job: what the client called the work.
    """

    run: str
    step: int
    round: int
    phase: str
    job: str


@dataclass(frozen=True)
class Sign:
    """From a client to the server, in place of a reply: what has become of an instruction so far.

    Args:
        run, step, round, phase: of the instruction.
        job: SHA-256 of the instruction, 64 hexadecimal digits; what the answer is collected by.
        state: queued behind other work; working; or lost, with the process that had it.
        seconds: since its work began, from 0 to 10⁹; 0 before.
        percent: of the present piece of work, 0 to 100; None where none is counted. It has no name: a text could say
            anything.
    """

    run: str
    step: int
    round: int
    phase: str
    job: str
    state: WorkState
    seconds: float = 0.0
    percent: int | None = None


def serialised_sign(record: Collect | Sign) -> Serialised:
    """A record as text."""
    table = {"kind": type(record).__name__, **asdict(record)}
    return Serialised(json.dumps(table, sort_keys=True, allow_nan=False, separators=(",", ":")))


def collect_of(record: Serialised) -> Collect | None:
    """The request for an answer that was serialised; None where it is another kind of record.

    Raises:
        WireError: it is one, with wrong fields.
    """
    table = _read(record, Collect)
    return None if table is None else Collect(**table)


def sign_of(record: Serialised) -> Sign | None:
    """The sign that was serialised; None where it is another kind of record.

    Raises:
        WireError: it is one, with wrong fields.
    """
    table = _read(record, Sign)
    if table is None:
        return None
    state, seconds, percent = table["state"], table["seconds"], table["percent"]
    if state not in get_args(WorkState):
        raise WireError(
            f"the state of a sign is {str(state)[:40]!r}, not one of {', '.join(get_args(WorkState))}"
        )
    if type(seconds) not in (int, float) or not 0 <= seconds <= LONGEST_SECONDS:
        raise WireError(f"the seconds of a sign are no number from 0 to {LONGEST_SECONDS}")
    if percent is not None and (type(percent) is not int or not 0 <= percent <= 100):
        raise WireError("the percentage of a sign is no whole number from 0 to 100")
    return Sign(**{**table, "seconds": float(seconds)})


def lost(asked: Collect) -> Sign:
    """What a client says that has no such work: whoever wants the answer sends the instruction again."""
    return Sign(**asdict(asked), state="lost")


def percentage_of(done: int, total: int) -> int | None:
    """Work that is done in whole percent; None where nothing is counted."""
    return max(0, min(100, math.floor(100 * done / total))) if total > 0 else None


def _read(record: Serialised, kind: type[Collect | Sign]) -> dict[str, Any] | None:
    """The fields of a record of a kind, as far as both kinds have them checked; None where it is another one."""
    bare = record.tensors is None and record.addresses is None and not record.bodies
    if not bare or len(record.header) > MAX_SIGN_BYTES:
        return None
    table: Any = parsed(record.header, "the header")
    if not isinstance(table, dict) or table.pop("kind", None) != kind.__name__:
        return None
    wanted = {"run": str, "step": int, "round": int, "phase": str, "job": str}
    names = kind.__dataclass_fields__.keys()
    if table.keys() != names or any(type(table[name]) is not one for name, one in wanted.items()):
        raise WireError(f"a record of kind {kind.__name__} has other fields than {', '.join(names)}")
    if not JOB.fullmatch(table["job"]):
        raise WireError("work is called by 64 hexadecimal digits")
    return table
