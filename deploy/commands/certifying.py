"""The command that lets machines trust each other: certificates."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Debug

Server = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|ADDRESS",
        help="A host name or address that institutions dial, without a port; give each. Loopback is added. "
        "With --renew: those of the present certificate, unless given.",
        show_default=False,
    ),
]
Institution = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="A site, by the name of its --node-config; give each.", show_default=False
    ),
]


def certificates(
    out: Annotated[Path, typer.Argument(help="Folder of all keys and certificates.", show_default=False)],
    server: Server = None,
    institution: Institution = None,
    days: Annotated[int, typer.Option(help="That the server's certificate is good for.")] = 365,
    ca_days: Annotated[int, typer.Option(help="That the authority is good for; not with --renew.")] = 3650,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew",
            help="A new server certificate under the same authority; further institutions get keys, all others "
            "keep theirs.",
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Make the keys and certificates of a federation between machines.

    Writes an authority, a certificate for the server and one key pair for every institution (elliptic curve P-384;
    private keys can be read by their owner only); with --renew, reads the authority. Nothing else is read, and an
    authority or an institution's key is never replaced. Stdout has what goes to whom and the next commands of both
    roles.

    Example: `fedtag certificates keys --server fl.example.org --institution hospital-a --institution hospital-b`
    """
    from fedtag.deploy.certificates.folder import issue
    from fedtag.deploy.certificates.folder import renew as renewed
    from fedtag.deploy.certificates.next_steps import next_steps
    from fedtag.deploy.terminal.console import results, say

    servers, institutions = server or [], institution or []
    made = (
        renewed(out, servers, institutions, days)
        if renew
        else issue(out, servers, institutions, days, ca_days)
    )
    say(results(), next_steps(made, renew))
