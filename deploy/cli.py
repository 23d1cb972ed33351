"""The command line: every command by its name.

Commands import what they need when they run, so that help comes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import click
import typer

from fedtag.deploy.commands.attacking import privacy_audit
from fedtag.deploy.commands.bundling import bundle
from fedtag.deploy.commands.certifying import certificates
from fedtag.deploy.commands.checking import doctor, list_settings, validate
from fedtag.deploy.commands.comparing import compare
from fedtag.deploy.commands.creating import new
from fedtag.deploy.commands.encoding import encode
from fedtag.deploy.commands.explaining import audit, report
from fedtag.deploy.commands.exporting import export
from fedtag.deploy.commands.importing import import_tables
from fedtag.deploy.commands.listing import methods
from fedtag.deploy.commands.pinning import identity
from fedtag.deploy.commands.predicting import predict
from fedtag.deploy.commands.running import demo, simulate, up
from fedtag.deploy.commands.serving import serve
from fedtag.deploy.commands.shelving import runs
from fedtag.deploy.commands.site import site
from fedtag.deploy.commands.training import train_on
from fedtag.deploy.commands.verifying import log
from fedtag.deploy.commands.watching import status
from fedtag.deploy.terminal.endings import departing_readers, exit_codes
from fedtag.deploy.terminal.help import WIDTH, PlainCommand, PlainGroup
from fedtag.deploy.terminal.locale import begin_in_utf8

PANELS = {
    "For researchers": (simulate, demo, compare, report, methods, list_settings, train_on, new),
    "For coordinators": (up, bundle, status, certificates, doctor),
    "For institutions": (import_tables, validate, encode, identity, predict, export),
    "For auditors": (audit, privacy_audit),
}
GROUPS: Mapping[str, tuple[str, typer.Typer]] = {
    "runs": ("For researchers", runs),
    "serve": ("For coordinators", serve),
    "site": ("For institutions", site),
    "log": ("For auditors", log),
}
"""Of commands, with the panel in which each stands."""
NAMES: Mapping[Callable[..., None], str] = {list_settings: "settings", import_tables: "import"}
"""Of commands that are not called as their functions are."""


class Commands(PlainGroup):
    """All commands; an error of any of them becomes a sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        with exit_codes(ctx):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    # Click makes suggestions of its own.
    suggest_commands=False,
    context_settings={"max_content_width": WIDTH},
)
for panel, commands in PANELS.items():
    for command in commands:
        app.command(NAMES.get(command), cls=PlainCommand, rich_help_panel=panel)(command)
for name, (panel, group) in GROUPS.items():
    app.add_typer(group, name=name, rich_help_panel=panel)


def versions() -> list[str]:
    """What is installed, a line each."""
    # Only who asks for it waits for it.
    from fedtag.common.wire.protocol import PROTOCOL, installed_release

    return [f"fedtag {installed_release()}", f"protocol {PROTOCOL}"]


def _show_versions(wanted: bool) -> None:
    if wanted:
        typer.echo("\n".join(versions()))
        raise typer.Exit


@app.callback()
def fedtag(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_versions, is_eager=True, help="Show the release and the protocol."
        ),
    ] = False,
) -> None:
    """Federated learning on text-attributed graphs, on Flower."""


def main() -> None:
    """The program `fedtag`."""
    begin_in_utf8()
    with departing_readers():
        app(prog_name="fedtag")


if __name__ == "__main__":
    main()
