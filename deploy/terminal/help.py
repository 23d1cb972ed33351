"""What a command says of itself: plain text in panels, for which rich would take longer than all else."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import click
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

WIDTH = 110
ARGUMENTS = "Arguments"
OPTIONS = "Options"
SPOKEN = "fedtag.spoken"
"""The options of the command that was called, by the names of the arguments that they are."""


class PlainCommand(TyperCommand):
    """A command whose options stand in the panels that they name, and in whose words errors are told."""

    def invoke(self, ctx: click.Context) -> Any:
        ctx.meta[SPOKEN] = {
            name: one.opts[0]
            for one in self.params
            if isinstance(one, click.Option)
            for name in (one.name, one.opts[0].lstrip("-").replace("-", "_"))
        }
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_parameters(self, ctx, formatter)


class PlainGroup(TyperGroup):
    """Commands in the panels that they name, each with the first sentence of its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_parameters(self, ctx, formatter)
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        write_panels(
            formatter,
            (
                (str(getattr(command, "rich_help_panel", None)), name, command.get_short_help_str(WIDTH))
                for name, command in commands
            ),
        )


def write_parameters(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """The arguments and options of a command."""
    rows = [described(one, context) for one in command.get_params(context)]
    write_panels(formatter, (row for row in rows if row is not None))


def write_panels(formatter: click.HelpFormatter, rows: Iterable[tuple[str, str, str]]) -> None:
    """Rows of panel, name and meaning, by panel in the order of the first of each."""
    panels: dict[str, list[tuple[str, str]]] = {}
    for panel, name, meaning in rows:
        panels.setdefault(panel, []).append((name, meaning))
    for panel, lines in panels.items():
        with formatter.section(panel):
            formatter.write_dl(lines)


def described(parameter: click.Parameter, context: click.Context) -> tuple[str, str, str] | None:
    """Panel, name and meaning of a parameter; None for one that is hidden."""
    if not isinstance(parameter, TyperArgument | TyperOption):
        record = parameter.get_help_record(context)
        return None if record is None else (OPTIONS, *record)
    if parameter.hidden:
        return None
    facts = []
    if (default := default_in_words(parameter, context)) is not None:
        facts.append(f"default: {default}")
    if isinstance(parameter.type, click.IntRange) and parameter.type.min is not None:
        facts.append(f"at least {parameter.type.min}")
    if parameter.required:
        facts.append("required")
    meaning = " ".join(filter(None, [parameter.help, f"[{'; '.join(facts)}]" if facts else ""]))
    if isinstance(parameter, TyperArgument):
        return parameter.rich_help_panel or ARGUMENTS, parameter.make_metavar(context), meaning
    names = " / ".join(", ".join(names) for names in (parameter.opts, parameter.secondary_opts) if names)
    value = "" if parameter.is_flag else f" {parameter.make_metavar(context)}"
    return parameter.rich_help_panel or OPTIONS, names + value, meaning


def default_in_words(parameter: TyperArgument | TyperOption, context: click.Context) -> str | None:
    """The default as a person would write it; None where there is none to be shown."""
    default = parameter.get_default(context, call=False)
    if not parameter.show_default or default is None or isinstance(default, list | tuple):
        return None
    if isinstance(default, bool):
        names = parameter.opts if default else parameter.secondary_opts
        return names[0].lstrip("-") if parameter.secondary_opts else None
    return str(default.value if isinstance(default, Enum) else default)
