"""The command that begins a package of one's own: new."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Debug


def new(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="method, part, condenser or backbone.", show_default=False)
    ],
    name: Annotated[
        str, typer.Argument(help="Of it: lower case, digits, hyphens or underscores.", show_default=False)
    ],
    folder: Annotated[Path, typer.Option("--in", help="Where its folder, fedtag-NAME, is made.")] = Path(),
    debug: Debug = False,
) -> None:
    """Begin a package with a method, part, condenser or backbone of your own.

    Reads nothing; writes a package that runs as it stands, with its entry point, and a test of the contract. One line
    is marked, and its test fails until it is filled in.

    Example: `fedtag new method class-balance`
    """
    from fedtag.deploy.terminal.console import results, say
    from fedtag.scaffold.package import new_package

    written = new_package(kind, name, folder)
    for path in written:
        say(results(), str(path))
    say(results(), f"fill in the marked line of {written[0]}, then: pip install -e {written[3].parent}")
