"""What a person sees on the terminal: results on stdout, progress and errors on stderr."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fedtag.common.wording.visible import visible

PIPE_WIDTH = 200


class PlainConsole(Console):
    """Names and paths appear as they are, but for what would steer the terminal: no markup, no emoji, no colours."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is written; Rich's own steps of the cursor are no text."""
        for one in super().render(renderable, options):
            yield one if one.control else Segment(visible(one.text), one.style)


def results() -> Console:
    """Stdout; where there is no terminal, nothing is cut to a width."""
    console = PlainConsole()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def notices() -> Console:
    """Stderr."""
    return PlainConsole(stderr=True)


def say(console: Console, text: str, style: str = "") -> None:
    """One line of text, never broken by us."""
    console.print(Text(visible(text), style=style), soft_wrap=True)
