"""The command with which institutions learn each other's keys: identity."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Debug


def identity(
    folder: Annotated[
        Path, typer.Argument(help="The institution's folder: data of --node-config.", show_default=False)
    ],
    workspace: Annotated[
        Path | None,
        typer.Option(help="Where the site's own files are: workspace of --node-config. [default: FOLDER]"),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The site's name: name of --node-config. [default: that of the folder]"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Print the keys of an institution, for the rosters of its peers.

    Reads the keys of the site where its SuperNode finds them; writes new ones there, in keys/identity.key, if it
    has none. Stdout has the entry for a roster and nothing else: two public keys under the site's name. What is to
    be done with it is told on stderr.

    Example: `fedtag identity /data/hospital-a --name hospital-a > hospital-a.toml`
    """
    from fedtag.deploy.certificates.identity import identify
    from fedtag.deploy.terminal.console import notices, results, say

    found = identify(folder, workspace, name)
    say(results(), found.entry.rstrip())
    for sentence in found.advice:
        say(notices(), sentence)
