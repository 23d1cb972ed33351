"""Commands on audit logs: log verify."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Debug
from fedtag.deploy.terminal.help import PlainCommand, PlainGroup

log = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
Roster = Annotated[
    Path | None, typer.Option(help="File with the keys of all sites, of which the seals must be.")
]
Key = Annotated[
    str | None,
    typer.Option(help="The signing key of the owner, 64 hexadecimal digits, in place of a roster."),
]


@log.callback()
def logs() -> None:
    """Check audit logs: `fedtag log verify`. It reads logs and writes nothing.

    Example: `fedtag log verify /data/hospital-a/audit --roster roster.toml`
    """


@log.command("verify", cls=PlainCommand, rich_help_panel="Commands")
def verify_log(
    path: Annotated[
        Path,
        typer.Argument(
            help="Folder of a log: audit/ of a workspace, or of FEDTAG_HOME; or one of its files."
        ),
    ],
    roster: Roster = None,
    key: Key = None,
    against: Annotated[
        Path | None,
        typer.Option(help="A copy of seals.jsonl that was kept elsewhere: tells of a log that was put back."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Find what was cut, changed, removed or moved in an audit log, and whose seals it has.

    Reads the log; writes nothing. Each fault is named with the number of its line, and the exit code is then 1. Lines
    after the last seal are told: these can be changed unseen by whoever can write the folder.

    Example: `fedtag log verify /data/hospital-a/audit --roster roster.toml`
    """
    from fedtag.audits.logs import kept_seals, known_keys
    from fedtag.common.audit_log.verification import verify
    from fedtag.deploy.terminal.log_view import show_log

    found = verify(path, known_keys(path, roster, key), kept_seals(against))
    show_log(path, found)
    if found.faults:
        raise typer.Exit(1)
