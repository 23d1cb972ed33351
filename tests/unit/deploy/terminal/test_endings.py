from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fedtag.common.errors import ConfigError, DataError, DeploymentError, QuorumError, RunError
from fedtag.deploy.cli import Commands
from fedtag.deploy.commands.options import Debug
from fedtag.deploy.terminal.endings import departing_readers
from fedtag.deploy.terminal.help import PlainCommand
from fedtag.deploy.terminal.interruption import TerminatedError, terminable

ERRORS: dict[str, tuple[BaseException, int, str]] = {
    "config": (ConfigError("a is wrong.\nb is wrong."), 2, "a is wrong.\nb is wrong.\n"),
    "data": (DataError(["row 1 is bad.", "row 2 is bad."]), 2, "row 1 is bad.\nrow 2 is bad.\n"),
    "quorum": (QuorumError("[red] too few :smile: answered"), 1, "[red] too few :smile: answered\n"),
    "interrupt": (KeyboardInterrupt(), 130, ""),
    "terminated": (TerminatedError(), 143, ""),
    "argument": (
        RunError("a=1, debug=2 and debug==3: choose another debug=, 'debug=4'; or debug=x.y"),
        1,
        "a=1, --debug 2 and debug==3: choose another --debug, 'debug=4'; or --debug x.y\n",
    ),
    "disk": (OSError(28, "No space left on device", "/x"), 1, "/x: No space left on device; check"),
    "bug": (ZeroDivisionError("division\nby zero"), 1, "unexpected ZeroDivisionError: division by zero; run"),
}


def application(error: BaseException) -> typer.Typer:
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

    @app.command(cls=PlainCommand)
    def fail(debug: Debug = False) -> None:
        raise error

    @app.command()
    def other() -> None:
        pass

    return app


@pytest.mark.parametrize("name", ERRORS)
def test_error_becomes_sentence_and_exit_code(name: str) -> None:
    error, code, text = ERRORS[name]
    result = CliRunner().invoke(application(error), ["fail"])
    assert result.exit_code == code
    assert result.stderr.startswith(text)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("name", ["config", "bug", "disk"])
def test_traceback_with_debug_only(name: str) -> None:
    result = CliRunner().invoke(application(ERRORS[name][0]), ["fail", "--debug"])
    assert "Traceback (most recent call last)" in result.stderr
    assert "run again with --debug" not in result.stderr


def test_sigterm_leaves_contexts_in_order() -> None:
    before = signal.getsignal(signal.SIGTERM)
    left = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            left.append("in order")

    with pytest.raises(TerminatedError), terminable():
        work()
    assert left == ["in order"]
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("arguments", "stream"),
    [
        (["settings"], "stdout"),
        (["--help"], "stdout"),
        (["settings", "--no"], "stderr"),
        (["validate", "/nowhere"], "stderr"),
    ],
)
def test_quiet_end_where_nobody_reads(arguments: list[str], stream: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: closed}
        done = subprocess.run([sys.executable, "-m", "fedtag.deploy.cli", *arguments], **streams, check=False)
    assert done.returncode == 141
    assert not done.stdout
    assert not done.stderr


def test_trouble_that_a_broken_connection_led_to_keeps_its_code() -> None:
    app = application(DeploymentError("the worker is gone"))
    app.command("broken")(broken_connection)
    with pytest.raises(SystemExit) as ended, departing_readers():
        app(["broken"])
    assert ended.value.code == 1


def broken_connection() -> None:
    try:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    except BrokenPipeError as error:
        raise DeploymentError("the worker is gone") from error
