"""What a person sees on the terminal: results on stdout, progress and errors on stderr."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

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
