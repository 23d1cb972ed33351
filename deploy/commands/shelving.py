"""Commands on the runs of a folder: runs list, runs diff."""

from pathlib import Path
from typing import Annotated

import click
import typer

from fedtag.deploy.commands.options import Debug
from fedtag.deploy.terminal.help import PlainCommand, PlainGroup

LIST = "list"


class Runs(PlainGroup):
    """Commands of which `list` is meant where none is named: `fedtag runs DIR`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in self.get_help_option_names(ctx)):
            args = [LIST, *args]
        return super().parse_args(ctx, args)


runs = typer.Typer(cls=Runs, rich_markup_mode=None)


@runs.callback()
def shelf() -> None:
    """List runs: `fedtag runs`, `fedtag runs DIR`; compare two: `fedtag runs diff A B`. It writes nothing.

    Example: `fedtag runs`
    """


@runs.command(LIST, cls=PlainCommand, rich_help_panel="Commands")
def list_runs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that holds runs, at any depth.")
    ] = Path("runs"),
    debug: Debug = False,
) -> None:
    """List the runs of a folder with method, data, rounds, state, scores and date, the newest first.

    Reads settings, status and summaries, no rows of rounds; writes nothing. Scores are those of the released round,
    by the metric that chose it. A damaged run is listed as such, with the reason; the exit code is then 1.

    Example: `fedtag runs list runs`
    """
    from fedtag.deploy.terminal.run_table import show_entries
    from fedtag.runs.overview import run_entries

    if not show_entries(run_entries(folder)):
        raise typer.Exit(1)


@runs.command("diff", cls=PlainCommand, rich_help_panel="Commands")
def diff_runs(
    first: Annotated[Path, typer.Argument(metavar="A", help="A run directory.", show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one.", show_default=False)],
    debug: Debug = False,
) -> None:
    """Show in which settings and results two runs differ.

    Reads settings and summaries; writes nothing. A run that has not finished has no results.

    Example: `fedtag runs diff runs/first runs/second`
    """
    from fedtag.deploy.terminal.run_table import show_differences
    from fedtag.runs.overview import differences
    from fedtag.server.tracking.run_directory import RunDirectory

    show_differences(first, second, differences(RunDirectory.open(first), RunDirectory.open(second)))
