"""The command that lists what is installed: methods."""

from typing import Annotated

import typer

from fedtag.deploy.commands.options import Debug


def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="Of a method, part, condenser, backbone, preset or tracker. [default: all]"),
    ] = None,
    debug: Debug = False,
) -> None:
    """List methods, parts, condensers, backbones, presets and trackers; or describe one.

    Reads what installed packages bring and writes nothing. Of one it says what cannot be imported.

    Example: `fedtag methods`
    """
    from fedtag.deploy.terminal.console import results
    from fedtag.deploy.terminal.listing import description_view, entries_view
    from fedtag.runs.catalogue import description, entries

    shown = entries_view(entries()) if name is None else description_view(description(name))
    results().print(shown)
