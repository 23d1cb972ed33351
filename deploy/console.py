"""What a person sees on the terminal: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click
import typer
from rich.console import Console
from rich.text import Text

from common.errors import ConfigError, DataError, FedtagError
from deploy.interruption import INTERRUPTED, TERMINATED, TerminatedError

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
    except (click.exceptions.Exit, click.ClickException, click.Abort):
        raise
    except FedtagError as error:
        _traceback(context)
        for sentence in _sentences(error):
            say(notices(), sentence, "red")
        raise typer.Exit(error.exit_code) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error
    except TerminatedError as error:
        raise typer.Exit(TERMINATED) from error
    except OSError as error:
        _traceback(context)
        where = f"{error.filename}: " if error.filename else ""
        say(
            notices(),
            f"{where}{error.strerror or error}; check the path, its permissions and the disk",
            "red",
        )
        raise typer.Exit(1) from error
    except Exception as error:
        _traceback(context)
        reason = " ".join(str(error).split())[:200]
        hint = "" if context.meta.get(DEBUG) else "; run again with --debug to see where"
        say(notices(), f"unexpected {type(error).__name__}: {reason}{hint}", "red")
        raise typer.Exit(1) from error


def _sentences(error: FedtagError) -> list[str]:
    if isinstance(error, DataError):
        return list(error.problems)
    return str(error).splitlines() if isinstance(error, ConfigError) else [str(error)]


def _traceback(context: click.Context) -> None:
    if context.meta.get(DEBUG):
        say(notices(), traceback.format_exc().rstrip())
