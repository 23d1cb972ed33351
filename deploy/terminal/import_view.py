"""An import on the terminal: what is asked, and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from fedtag.common.wording.counts import plural
from fedtag.deploy.terminal.console import notices, results, say
from fedtag.deploy.terminal.endings import in_options
from fedtag.deploy.terminal.help import SPOKEN
from fedtag.graph.importing.account import KINDS
from fedtag.graph.importing.columns import Candidate
from fedtag.graph.importing.importer import Imported

INDENT = 10


def show_import(made: Imported) -> None:
    """What was read, guessed, made, repaired and dropped, a line each; and what the folder holds."""
    console, graph = results(), made.graph
    options = click.get_current_context().meta.get(SPOKEN, {})
    for kind in KINDS:
        for sentence in made.account.of(kind):
            say(console, f"{kind:<{INDENT}}{in_options(sentence, options)}")
    classes = f", {plural(len(graph.classes), 'class')}" if graph.classes else ""
    held = f"{plural(graph.num_nodes, 'node')}, {plural(len(graph.edges), 'edge')}{classes}"
    say(console, f"{made.folder}: {held}; `fedtag validate` shows more", "green")


def asked(role: str, candidates: Sequence[Candidate]) -> str | None:
    """Which of several columns a person chooses; None where no person sits at a terminal."""
    if not _is_terminal():
        return None
    console = notices()
    say(console, f"Which column is the {role}?")
    for number, one in enumerate(candidates, start=1):
        say(console, f"  {number}  {one.column} ({one.reason})")
    number = click.prompt("number", type=click.IntRange(1, len(candidates)), err=True)
    return candidates[number - 1].column


def _is_terminal() -> bool:
    return sys.stdin.isatty()
