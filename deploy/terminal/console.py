"""What a person sees on the terminal: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click
import typer
from rich.console import Console
from rich.text import Text

from fedtag.common.errors import ConfigError, DataError, FedtagError
from fedtag.deploy.terminal.interruption import INTERRUPTED, TERMINATED, TerminatedError

CLOSED_PIPE = 141
"""As the shell tells of a program that SIGPIPE ended."""

DEBUG = "fedtag.debug"
PIPE_WIDTH = 200


def results() -> Console:
    """Stdout. Names and paths appear as they are: no markup, no emoji, no automatic colours.

    Where there is no terminal, nothing is cut to a width.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def notices() -> Console:
    """Stderr, in the same way."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(console: Console, text: str, style: str = "") -> None:
    """One line of text, never broken by us; control characters of foreign names cannot reach the terminal."""
    visible = "".join(char if char in "\n\t" or char.isprintable() else "\ufffd" for char in text)
    console.print(Text(visible, style=style), soft_wrap=True)


@contextmanager
def exit_codes(context: click.Context) -> Iterator[None]:
    """Turn what ends a command into a sentence on stderr and an exit code.

    1 for troubles while working, 2 for wrong settings or data, 130 for Ctrl-C, 143 for SIGTERM.
    A traceback appears only where the command was given --debug.
    """
    try:
        yield
    except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error
    except TerminatedError as error:
        raise typer.Exit(TERMINATED) from error
    except Exception as error:
        debug = bool(context.meta.get(DEBUG))
        if debug:
            say(notices(), traceback.format_exc().rstrip())
        for sentence in sentences(error, debug):
            say(notices(), sentence, "red")
        raise typer.Exit(error.exit_code if isinstance(error, FedtagError) else 1) from error


@contextmanager
def departing_readers() -> Iterator[None]:
    """End the program quietly, with 141, where whoever read its output has gone, as `head` does.

    SIGPIPE itself stays ignored, since it would also end a run whose connection breaks. Rich and Click turn the error
    into an exit with 1 of their own.
    """
    try:
        yield
    except SystemExit as end:
        left = [_unread(stream) for stream in (sys.stdout, sys.stderr)]
        if any(left) or isinstance(end.__context__, BrokenPipeError):
            raise SystemExit(CLOSED_PIPE) from end
        raise


def _unread(stream: TextIO) -> bool:
    """Whether nobody reads a stream, which then goes nowhere, so that Python's own flush at the end is no error."""
    try:
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return True
    return False


def sentences(error: Exception, debug: bool) -> list[str]:
    """What a person is told about an error; `debug` leaves out how to learn more."""
    if isinstance(error, DataError):
        return list(error.problems)
    if isinstance(error, ConfigError):
        return str(error).splitlines()
    if isinstance(error, FedtagError):
        return [str(error)]
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return [f"{where}{error.strerror or error}; check the path, its permissions and the disk"]
    reason = " ".join(str(error).split())[:200]
    hint = "" if debug else "; run again with --debug to see where"
    return [f"unexpected {type(error).__name__}: {reason}{hint}"]
