"""The command line: every command by its name.

Commands import what they need when they run, so that help comes at once.
"""

from __future__ import annotations

from typing import Any

import click
import typer
from typer.core import TyperGroup

from fedtag.deploy.commands.attacking import privacy_audit
from fedtag.deploy.commands.certifying import certificates
from fedtag.deploy.commands.checking import doctor, list_settings, validate
from fedtag.deploy.commands.comparing import compare
from fedtag.deploy.commands.explaining import audit, report
from fedtag.deploy.commands.exporting import export
from fedtag.deploy.commands.listing import methods
from fedtag.deploy.commands.pinning import identity
from fedtag.deploy.commands.predicting import predict
from fedtag.deploy.commands.running import demo, simulate, up
from fedtag.deploy.commands.training import train_on
from fedtag.deploy.commands.watching import status


class Commands(TyperGroup):
    """All commands; an error of any of them becomes a sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        from fedtag.deploy.terminal.console import exit_codes

        with exit_codes(ctx):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    help="Federated learning on text-attributed graphs, on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (
    simulate,
    up,
    status,
    compare,
    validate,
    audit,
    privacy_audit,
    report,
    predict,
    export,
    identity,
    certificates,
    doctor,
    demo,
    methods,
):
    app.command()(command)
app.command("settings")(list_settings)
app.command("train-on")(train_on)


def main() -> None:
    """The program `fedtag`."""
    from fedtag.deploy.terminal.console import departing_readers

    with departing_readers():
        app(prog_name="fedtag")


if __name__ == "__main__":
    main()
