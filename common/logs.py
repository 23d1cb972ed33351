"""The log of the server app, the client app and the worker: lines for people, or JSON that quotes nobody's data.

`FEDTAG_LOG=json` makes every record one JSON object on stderr, whichever library wrote it. The text of a record, its
arguments, the text of an exception and local values may quote a node, so none of them is read: what appears is the
event and the fields that our own code names, the types of exceptions, and places in source files.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath
from types import TracebackType
from typing import Any

from fedtag.common import errors
from fedtag.common.errors import ConfigError
from fedtag.common.wire.names import CLIENT_NAME
from fedtag.common.wording.visible import visible

VARIABLE = "FEDTAG_LOG"
LOGGER = logging.getLogger("fedtag")
LOGGER.addFilter(lambda record: _seen(record))
EVENTS = logging.getLogger("fedtag.events")
"""What only JSON tells; people have it on the terminal or from `fedtag status`."""
EVENTS.setLevel(logging.CRITICAL + 1)
MOST_FRAMES = 30
_LEVELS = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}
_FIELDS = "fedtag_fields"
_ERRORS = "fedtag_errors"
_TYPE = re.compile(r"[A-Za-z_]\w{0,79}")
_FILE = re.compile(r"[\w.+-]{1,80}")
_FUNCTION = re.compile(r"[\w<>]{1,80}")
_MODULE = re.compile(r"\w+(\.\w+)*")


class Event(StrEnum):
    """What our own code tells of itself; the records of libraries are a `message`."""

    MESSAGE = "message"
    WARNING = "warning"
    NAMED = "run named"
    RUN_STARTED = "run started"
    RUN_RESUMED = "run resumed"
    EXTENDED = "run extended"
    RUN_FINISHED = "run finished"
    RUN_STOPPED = "run stopped"
    WAITING = "waiting for clients"
    EXCHANGE = "exchange"
    ROUND = "round"
    SCORES = "round scored"
    LEFT_OUT = "client left out"
    UPDATE_CUT = "update cut"
    RETURNED = "client came back as another node"
    OTHER_RELEASE = "another release"
    CHECKPOINT = "damaged checkpoint"
    NOTHING_LEARNED = "no training node"
    PARTLY_LEARNED = "part of the data not learned"
    GUARANTEE = "privacy guarantee"
    SECURE_SUM = "secure sum"
    PEERS = "exchange between peers"
    METRICS = "metrics"
    TRACKER = "tracker failed"
    STATUS = "status not written"
    INSTRUCTION = "instruction carried out"
    INSTRUCTION_FAILED = "instruction failed"
    WITHOUT_WORKER = "carried out without a worker"
    WORKER_LISTENS = "worker listens"
    WORKER_ENDS = "worker ends"
    WORKER_REFUSED = "worker refused a connection"
    WORKER_FAILED = "worker did not start"
    TASKS_AWAITED = "no tasks can be had yet"
    PROCESS_LOST = "process lost"
    PROCESS_RESTARTED = "process restarted"
    OTHER_FLOWER = "another release of Flower"


def _counted(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


def _measured(value: object) -> float | None:
    return round(value, 6) if isinstance(value, float) and math.isfinite(value) else _counted(value)


def _matching(pattern: str | re.Pattern[str]) -> Callable[[object], str | None]:
    return lambda value: value if isinstance(value, str) and re.fullmatch(pattern, value) else None


ALLOWED: Mapping[str, Callable[[object], object]] = {
    "run": _matching(r"[0-9a-f]{1,40}"),
    "round": _counted,
    "rounds": _counted,
    "phase": _matching(r"[a-z][a-z0-9_ -]{0,31}"),
    "client": _matching(CLIENT_NAME),
    "clients": _counted,
    "wanted": _counted,
    "node": _matching(r"\d{1,20}"),
    "flower_run": _matching(r"\d{1,20}"),
    "seconds": _measured,
    "bytes": _counted,
    "error": _matching(_TYPE),
    "code": _counted,
    "pid": _counted,
    "port": _counted,
    "release": _matching(r"\d[\w.+!-]{0,39}"),
    "tracker": _matching(r"[a-z][a-z0-9_-]{0,39}"),
}
"""The fields of an event, and what each may hold; another value is left out."""


def fields(event: Event, **values: object) -> dict[str, Any]:
    """The argument `extra` of a call of a logger: what JSON may say of it.

    Args:
        event: its kind.
        values: fields of `ALLOWED`; None is left out.
    """
    unknown = sorted(values.keys() - ALLOWED.keys())
    if unknown:
        raise KeyError(f"the log has no field {', '.join(unknown)}: use one of {', '.join(ALLOWED)}")
    return {_FIELDS: (event, values)}


def field(record: logging.LogRecord, name: str) -> object:
    """One field of an event; None where it has none of the name."""
    told: tuple[Event | None, Mapping[str, object]] = getattr(record, _FIELDS, (None, {}))
    return told[1].get(name)


def json_wanted() -> bool:
    """Whether FEDTAG_LOG asks for JSON.

    Raises:
        ConfigError: it asks for something else than json or text.
    """
    choice = os.environ.get(VARIABLE, "")
    if choice not in ("", "text", "json"):
        raise ConfigError(f"{VARIABLE} is '{choice}': set it to json or text")
    return choice == "json"


class PrivateRecord(logging.LogRecord):
    """A record that forgets texts when it is made, so that no handler of any library can print them."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("msg", "args", "exc_info"):
            for error in _exceptions(value):
                self.__dict__.setdefault(_ERRORS, []).append(_told(error))
            value = {"msg": "", "args": (), "exc_info": None}[name]
        elif name in ("exc_text", "stack_info"):
            value = None
        super().__setattr__(name, value)

    def getMessage(self) -> str:  # noqa: N802
        """The record as one JSON object."""
        event, values = self.__dict__.get(_FIELDS, (None, {}))
        if not isinstance(event, Event):
            event = Event.WARNING if self.name == "py.warnings" else Event.MESSAGE
        time = datetime.fromtimestamp(self.created, UTC).isoformat(timespec="milliseconds")
        told: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": _LEVELS[max(10, min(50, self.levelno // 10 * 10))],
            "logger": self.name if len(self.name) <= 80 and _MODULE.fullmatch(self.name) else "other",
            "event": event.value,
        }
        checked = {name: ALLOWED[name](value) for name, value in values.items()}
        told |= {name: value for name, value in checked.items() if value is not None}
        if event in (Event.MESSAGE, Event.WARNING):
            told["at"] = _place(self.pathname, self.lineno, self.funcName or "")
        found = self.__dict__.get(_ERRORS, [])
        for error in found[:1]:
            told = {**error, **told}
        if meaning := _meaning(told.get("error", "")):
            told["meaning"] = meaning
        return json.dumps(dict(sorted(told.items(), key=lambda item: _ORDER.get(item[0], len(_ORDER)))))


_ORDER = {
    name: place
    for place, name in enumerate(
        ["time", "level", "logger", "event", *ALLOWED, "meaning", "causes", "at", "frames"]
    )
}


def _exceptions(value: object) -> Iterator[BaseException]:
    """The exceptions in what a call of a logger was given."""
    if value is True:
        value = sys.exc_info()[1]
    if isinstance(value, BaseException):
        yield value
    elif isinstance(value, tuple):
        yield from (part for part in value if isinstance(part, BaseException))
    elif isinstance(value, Mapping):
        yield from (part for part in value.values() if isinstance(part, BaseException))


def _told(error: BaseException) -> dict[str, Any]:
    """Type, causes and frames of an exception, without its text."""
    causes: list[str] = []
    cause, seen = error.__cause__ or error.__context__, {id(error)}
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        causes.append(_type(cause))
        cause = cause.__cause__ or cause.__context__
    frames = [
        _place(frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    told: dict[str, Any] = {"error": _type(error), "causes": causes, "frames": frames[-MOST_FRAMES:]}
    return {name: value for name, value in told.items() if value}


def _type(error: BaseException) -> str:
    name = type(error).__name__
    return name if _TYPE.fullmatch(name) else "Exception"


def _meaning(name: str) -> str | None:
    """What an error of our own says by its type alone."""
    kind = getattr(errors, name, None)
    known = isinstance(kind, type) and issubclass(kind, errors.FedtagError)
    return (kind.__doc__ or "").splitlines()[0] if known else None


def _place(path: str, line: int, function: str) -> str:
    """File, line and function; parts that are no ordinary names are left out."""
    parts = [part if _FILE.fullmatch(part) else "?" for part in PurePath(path).parts[-3:] if part != "/"]
    return f"{'/'.join(parts)}:{line}:{function if _FUNCTION.fullmatch(function) else '?'}"


def _seen(record: logging.LogRecord) -> bool:
    """Leave every handler what can be seen of a record; further lines are set in, so that none forges a record."""
    if not isinstance(record, PrivateRecord):
        record.msg, record.args = visible(record.getMessage()).replace("\n", "\n  "), None
        if record.exc_info and not record.exc_text:
            record.exc_text = visible(logging.Formatter().formatException(record.exc_info))
    return True


def start_log(text_format: str | None = None) -> None:
    """Write this process's log to stderr, as FEDTAG_LOG asks for.

    Args:
        text_format: of lines for people, for the log of fedtag alone; None leaves them to Python's defaults.

    Raises:
        ConfigError: see `json_wanted`.
    """
    if json_wanted():
        if logging.getLogRecordFactory() is not PrivateRecord:
            _write_json()
    elif text_format is not None:
        if not LOGGER.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter(text_format))
            LOGGER.addHandler(handler)
        LOGGER.setLevel(logging.INFO)
        # Flower sends stderr to the SuperLink by HTTP, whose client logs each request.
        LOGGER.propagate = False


def _write_json() -> None:
    logging.setLogRecordFactory(PrivateRecord)
    logging.captureWarnings(True)
    known = [log for log in logging.Logger.manager.loggerDict.values() if isinstance(log, logging.Logger)]
    for log in known:
        log.handlers.clear()
        log.propagate = True
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.WARNING)
    LOGGER.setLevel(logging.DEBUG)
    EVENTS.setLevel(logging.DEBUG)
    sys.excepthook = _log_uncaught
    sys.unraisablehook = lambda args: _log_uncaught(None, args.exc_value, None)
    threading.excepthook = lambda args: _log_uncaught(None, args.exc_value, None)


def _log_uncaught(
    kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> None:
    LOGGER.critical("uncaught", exc_info=error)
