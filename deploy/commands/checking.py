"""Commands that check a folder, a machine, or what can be set: validate, doctor, settings."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Debug


def validate(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="Folders of institutions, or what else --data may name; several are checked as one federation.",
            show_default=False,
        ),
    ],
    write_split: Annotated[
        bool,
        typer.Option(
            "--write-split", help="Write a split that was drawn into the nodes file of each folder."
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Check an institution's folder, offline, as a run checks it.

    Reads nodes, edges, meta.json and features; writes nothing without --write-split. All problems are listed at
    once, and the exit code is then 2.

    Example: `fedtag validate /data/hospital-a`
    """
    from fedtag.deploy.terminal.folder_view import show_data, show_written
    from fedtag.graph.validation import keep_split, validate_sources

    for found in validate_sources(data):
        show_data(found)
        if write_split:
            show_written(keep_split(found))


def doctor(
    policy: Annotated[
        Path | None, typer.Option(help="A site's policy, to be checked as well.", show_default=False)
    ] = None,
    debug: Debug = False,
) -> None:
    """Say what this machine has: Python, PyTorch, devices, models, Flower, ports, disk.

    Reads the bundled model files to verify them, and the policy; writes nothing. The exit code is 1 if something
    essential is missing.

    Example: `fedtag doctor`
    """
    from fedtag.deploy.doctor import examine, show_findings

    if not show_findings(examine(policy)):
        raise typer.Exit(1)


def list_settings(
    debug: Debug = False,
) -> None:
    """List every setting with its default and meaning.

    Reads and writes nothing. The keys are those of --set, of --config files and of `flwr run -c`.

    Example: `fedtag settings`
    """
    from fedtag.deploy.terminal.settings_table import show_settings

    show_settings()
