"""The group of commands with which an institution governs its own site."""

import typer

from fedtag.deploy.commands.forgetting import forget, sweep
from fedtag.deploy.terminal.help import PlainCommand, PlainGroup

site = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)


@site.callback()
def sites() -> None:
    """Govern a site: what it forgets. Its commands read and write the site's own files.

    Example: `fedtag site forget paper-17 --data /data/hospital-a`
    """


for command in (forget, sweep):
    site.command(cls=PlainCommand, rich_help_panel="Commands")(command)
