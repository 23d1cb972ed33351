"""The log in JSON says nothing that a record, an exception or a warning quotes."""

from __future__ import annotations

import builtins
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.worker.errors import CarriedOutError
from fedtag.common import errors, logs
from fedtag.common.errors import ConfigError, DataError
from fedtag.common.logs import ALLOWED, Event, PrivateRecord, fields, json_wanted, start_log

REPOSITORY = Path(__file__).resolve().parents[3]
PLANTED = "the patient of node 17 has gout"
TEXT = st.text(max_size=60)
KINDS: list[type[BaseException]] = [
    kind
    for kind in {**vars(builtins), **vars(errors), "CarriedOutError": CarriedOutError}.values()
    if isinstance(kind, type) and issubclass(kind, BaseException) and "Group" not in kind.__name__
]
UNUSUAL: dict[type[BaseException], Callable[[str], tuple[object, ...]]] = {
    UnicodeDecodeError: lambda text: ("utf-8", text.encode("utf-8", "replace"), 0, 1, text),
    UnicodeEncodeError: lambda text: ("utf-8", text, 0, 1, text),
    UnicodeTranslateError: lambda text: (text, 0, 1, text),
    CarriedOutError: lambda text: (text, text),
}


def record(message: object, *arguments: object, error: Any = None, extra: Any = None) -> str:
    """What a stock handler and formatter write, with the time of the record left out."""
    made = PrivateRecord(
        "fedtag", logging.ERROR, "/x/client/app.py", 7, message, arguments, error, "answer", ""
    )
    made.created = 0.0
    for name, value in (extra or {}).items():
        setattr(made, name, value)
    return logging.Formatter("%(message)s").format(made)


def raised(kind: type[BaseException], text: str) -> BaseException:
    """An exception that was caught, with a traceback and a cause, which quote the text too."""
    try:
        try:
            raise ValueError(text)
        except ValueError as cause:
            raise kind(*UNUSUAL.get(kind, lambda text: (text,))(text)) from cause
    except BaseException as error:
        return error


@given(one=TEXT, other=TEXT, kind=st.sampled_from(KINDS))
def test_an_exception_is_logged_without_its_text(one: str, other: str, kind: type[BaseException]) -> None:
    """What is written does not depend on the text, so it cannot tell any of it."""
    found = [raised(kind, text) for text in (one, other)]
    infos = [(type(error), error, error.__traceback__) for error in found]
    lines = [record("failed: %s", error, error=info) for error, info in zip(found, infos, strict=True)]
    assert lines[0] == lines[1]
    told = json.loads(lines[0])
    assert told["error"] == kind.__name__
    assert told["causes"] == ["ValueError"]
    assert any(frame.endswith(":raised") for frame in told["frames"])
    # The message may be the exception itself, and the arguments a mapping.
    assert record(found[0]) == record(found[1])
    assert record("%(error)s", {"error": found[0]}) == record("%(error)s", {"error": found[1]})


@given(one=TEXT, other=TEXT)
def test_texts_and_arguments_are_not_logged(one: str, other: str) -> None:
    assert record(one) == record(other)
    assert record("%s", one) == record("%s", other)
    assert record("%(a)s %(b)s", {"a": one, "b": one}) == record("%(a)s %(b)s", {"a": other, "b": other})
    assert record("%d", one) == record("%d", other), "not even where the arguments do not fit"
    assert json.loads(record(one)).keys() == {"time", "level", "logger", "event", "at"}
    assert json.loads(record(one))["at"] == "x/client/app.py:7:answer"


@given(one=TEXT, other=TEXT, field=st.sampled_from(sorted(ALLOWED)))
def test_fields_hold_nothing_but_what_they_are_for(one: str, other: str, field: str) -> None:
    """A text that is no name, no number and no identifier is left out of every field."""
    lines = [
        record("x", extra=fields(Event.ROUND, **{field: f"{text}\N{WHITE SMILING FACE}"}))
        for text in (one, other)
    ]
    assert lines[0] == lines[1]
    assert field not in json.loads(lines[0])


def test_fields_of_an_event() -> None:
    told = json.loads(
        record(
            "round %d",
            3,
            extra=fields(
                Event.ROUND,
                round=3,
                seconds=1.25,
                bytes=10,
                client="north-1",
                node="123",
                run="0af",
                phase="train",
            ),
        )
    )
    assert told == {
        "time": "1970-01-01T00:00:00.000Z",
        "level": "ERROR",
        "logger": "fedtag",
        "event": "round",
        "run": "0af",
        "round": 3,
        "phase": "train",
        "client": "north-1",
        "node": "123",
        "seconds": 1.25,
        "bytes": 10,
    }
    for wrong in (True, -1, "3", 1.5, None):
        assert "round" not in json.loads(record("x", extra=fields(Event.ROUND, round=wrong)))
    with pytest.raises(KeyError, match="the log has no field text: use one of run, round"):
        fields(Event.ROUND, text="x")


def test_an_event_must_be_ours() -> None:
    told = json.loads(record("x", extra={"fedtag_fields": (PLANTED, {})}))
    assert told["event"] == "message"


def test_our_errors_say_what_their_types_mean() -> None:
    told = json.loads(record("%s", DataError(PLANTED)))
    assert (told["error"], told["meaning"]) == ("DataError", "A data folder breaks the contract.")
    carried = CarriedOutError(PLANTED, "DataError; the site's own log says more")
    told = json.loads(record("%s", carried, extra=fields(Event.INSTRUCTION_FAILED, error="DataError")))
    assert (told["error"], told["meaning"]) == ("DataError", "A data folder breaks the contract.")
    assert "meaning" not in json.loads(record("%s", ValueError(PLANTED)))


def test_places_with_strange_names_are_not_told() -> None:
    code = compile("def f():\n    raise ValueError\nf()", f"/tmp/{PLANTED}", "exec")
    code = code.replace(co_name=PLANTED)
    try:
        exec(code, {})
    except ValueError as error:
        caught = error
    line = record("x", error=(ValueError, caught, caught.__traceback__))
    assert json.loads(line)["frames"][1:] == ["tmp/?:3:?", "tmp/?:2:f"]
    assert json.loads(record("x")).get("frames") is None


def test_levels_and_loggers_cannot_be_given_texts() -> None:
    logging.addLevelName(35, PLANTED)
    try:
        made = PrivateRecord(PLANTED, 35, PLANTED, 1, "x", (), None, PLANTED, PLANTED)
        told = json.loads(made.getMessage())
    finally:
        logging._levelToName.pop(35)
        logging._nameToLevel.pop(PLANTED)
    assert (told["level"], told["logger"], told["at"]) == ("WARNING", "other", "?:1:?")


@pytest.mark.parametrize(("value", "wanted"), [("", False), ("text", False), ("json", True)])
def test_variable(value: str, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTAG_LOG", value)
    assert json_wanted() is wanted


def test_variable_with_a_typing_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTAG_LOG", "jsno")
    with pytest.raises(ConfigError, match="FEDTAG_LOG is 'jsno': set it to json or text"):
        start_log("%(message)s")


PROGRAM = f"""
import logging, sys, threading, warnings
library = logging.getLogger("library")
handler = logging.StreamHandler()
handler.setFormatter(logging.Formatter("%(levelname)s %(message)s %(exc_text)s"))
library.addHandler(handler)
library.propagate = False
from fedtag.common.logs import LOGGER, Event, fields, start_log
start_log("%(message)s")
start_log("%(message)s")
text = {PLANTED!r}
late = logging.getLogger("late")
late.addHandler(logging.StreamHandler())
late.propagate = False
LOGGER.info(text)
LOGGER.info("round", extra=fields(Event.ROUND, round=1))
library.warning("could not read %r", text)
warnings.warn(text)
try:
    int(text)
except ValueError as error:
    LOGGER.exception("no number in %s: %s", text, error, stack_info=True)
    late.warning("no number", exc_info=True)
thread = threading.Thread(target=lambda: int(text))
thread.start()
thread.join()
logging.getLogger("httpx").info("GET /")
raise RuntimeError(text)
"""


def test_a_whole_process_writes_json_alone() -> None:
    """Records of libraries, with handlers of their own or none, warnings, and what nobody caught."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=REPOSITORY,
        env={**os.environ, "FEDTAG_LOG": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (done.stdout, "gout" in done.stderr) == ("", False)
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["logger"], line["event"], line.get("error")) for line in told] == [
        ("fedtag", "message", None),
        ("fedtag", "round", None),
        ("library", "message", None),
        ("py.warnings", "warning", None),
        ("fedtag", "message", "ValueError"),
        ("late", "message", "ValueError"),
        ("fedtag", "message", "ValueError"),
        ("fedtag", "message", "RuntimeError"),
    ]


def test_text_for_people_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the server app starts its log; a second call adds nothing."""
    monkeypatch.delenv("FEDTAG_LOG", raising=False)
    log = logging.getLogger("fedtag-test")
    monkeypatch.setattr(logs, "LOGGER", log)
    try:
        start_log("fedtag %(levelname)s: %(message)s")
        start_log("fedtag %(levelname)s: %(message)s")
        log.warning("round %d, %s", 1, "a note", extra=fields(Event.ROUND, round=1))
        logs.EVENTS.critical("for JSON alone")
    finally:
        log.handlers.clear()
    assert capsys.readouterr().err.splitlines() == ["fedtag WARNING: round 1, a note"]
