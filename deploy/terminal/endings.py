"""How a command ends: a sentence on stderr and an exit code."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

import click
import typer

from fedtag.common.errors import FedtagError, sentences
from fedtag.common.wording.visible import visible
from fedtag.deploy.terminal.help import SPOKEN
from fedtag.deploy.terminal.interruption import INTERRUPTED, TERMINATED, TerminatedError

CLOSED_PIPE = 141
"""As the shell tells of a program that SIGPIPE ended."""

DEBUG = "fedtag.debug"
ARGUMENT = re.compile(r"(?<![\w.\-'\"])([a-z_]+)=(?!=)([^\s,.;:)]?)")
"""An argument in a sentence, and the first character of its value where it has one."""


@contextmanager
def exit_codes(context: click.Context) -> Iterator[None]:
    """Turn what ends a command into a sentence on stderr and an exit code.

    1 for troubles while working, 2 for wrong settings or data, 130 for Ctrl-C, 143 for SIGTERM.
    A traceback appears only where the command was given --debug.
    """
    try:
        yield
    except click.ClickException as error:
        # It quotes arguments, which may be names of files that a shell has put in; its attribute is final.
        vars(error)["message"] = visible(error.message)
        raise
    except (click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error
    except TerminatedError as error:
        raise typer.Exit(TERMINATED) from error
    except Exception as error:
        # Help loads this module, too, and has no use for rich.
        from fedtag.deploy.terminal.console import notices, say

        debug = bool(context.meta.get(DEBUG))
        if debug:
            say(notices(), traceback.format_exc().rstrip())
        for sentence in sentences(error, debug):
            say(notices(), in_options(sentence, context.meta.get(SPOKEN, {})), "red")
        raise typer.Exit(error.exit_code if isinstance(error, FedtagError) else 1) from error


def in_options(sentence: str, options: Mapping[str, str]) -> str:
    """A sentence that names arguments as Python has them, as in `out=`, in the words of a command.

    Args:
        sentence: of an error.
        options: of the command, by the names of the arguments that they are.
    """

    def option(found: re.Match[str]) -> str:
        name = options.get(found[1])
        return found[0] if name is None else f"{name} {found[2]}" if found[2] else name

    return ARGUMENT.sub(option, sentence)


@contextmanager
def departing_readers() -> Iterator[None]:
    """End the program quietly, with 141, where whoever read its output has gone, as `head` does.

    SIGPIPE itself stays ignored, since it would also end a run whose connection breaks. Rich and Click turn most
    of these errors into an exit with 1 of their own.
    """
    try:
        yield
    except (SystemExit, BrokenPipeError) as end:
        left = [_unread(stream) for stream in (sys.stdout, sys.stderr)]
        if any(left) or BrokenPipeError in (type(end), type(end.__context__)):
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
