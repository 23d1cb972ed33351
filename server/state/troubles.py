"""Why a run stopped or a client was left out, in words for people and in codes for the log."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from fedtag.common.errors import FedtagError
from fedtag.common.logs import Event, fields

MOST_CHARACTERS = 2000
# A site may put its name before the kind of the error.
_ERROR = re.compile(r"error (\d+): (?:(?:[^:]{1,64}: )??([A-Za-z]\w*(?:Error|Exception))\b)?")


def reason_of(error: BaseException) -> str:
    """Why a run stopped, in words."""
    if isinstance(error, FedtagError | OSError):
        return str(error)[:MOST_CHARACTERS]
    if isinstance(error, Exception):
        return f"unexpected {type(error).__name__}: {error}"[:MOST_CHARACTERS]
    return "it was interrupted"


def left_out(number: int, client: str, reason: str, known: Collection[str]) -> dict[str, Any]:
    """What the log may say of a client whose answer is of no use: codes, since its words came from elsewhere.

    Args:
        number: the round.
        client: a name, or `node` and a number.
        reason: as notes give it.
        known: the names that have been accepted; another one is a claim.
    """
    code, error = error_in(reason)
    node = client.removeprefix("node ") if client.startswith("node ") else None
    name = client if client in known else None
    return fields(Event.LEFT_OUT, round=number, client=name, node=node, code=code, error=error)


def error_in(reason: str) -> tuple[int | None, str | None]:
    """Flower's code and the kind of the error in a reason why a client's answer is of no use."""
    found = _ERROR.match(reason)
    return (int(found[1]), found[2]) if found else (None, None)
