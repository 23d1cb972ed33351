"""The command that shows how a run goes: status."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.common.errors import ConfigError
from fedtag.deploy.commands.options import Debug


def status(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="A run directory, or a folder of runs, of which the newest is taken. "
            "[default: runs/ here and in FEDTAG_HOME]",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until the run ends.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One line of JSON; with --watch one a change.")
    ] = False,
    superlink: Annotated[
        str | None,
        typer.Option(
            help="Name of a connection in Flower's config.toml: add what its SuperLink says of nodes."
        ),
    ] = None,
    service: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Show the programs of a link (8001) or a site (9095) on this machine instead.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Show how a run goes: rounds, phase, clients, last contact, failures, bytes, when it ends.

    Reads status.json in the run directory, which the server replaces while it trains; writes nothing. The exit code
    is 1 if the run stopped or its process is gone, or the service is not ready; what helps is then said.

    Example: `fedtag status runs/first --watch`
    """
    from fedtag.deploy.terminal.observation import observe, show_once, show_service

    if service is not None:
        if run is not None or watch or superlink is not None:
            raise ConfigError(
                "--service shows a service and no run: leave the run, --watch and --superlink out"
            )
        if not show_service(service, as_json):
            raise typer.Exit(1)
        return
    if not (observe if watch else show_once)(run, as_json, superlink):
        raise typer.Exit(1)
