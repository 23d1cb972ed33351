"""Commands that keep the programs of a link or a site running: serve link, serve site."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.terminal.help import PlainCommand, PlainGroup

serve = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Keep the programs of a coordinator (link) or an institution (site) running.",
)

Key = Annotated[
    Path | None,
    typer.Option(help="The private key, where it lies elsewhere than in --keys.", show_default=False),
]
Plain = Annotated[
    bool,
    typer.Option(
        "--plain-executors",
        help="Flower's own executors: slower, and a site runs the code that a server sends.",
    ),
]


@serve.command(cls=PlainCommand, rich_help_panel="Commands")
def link(
    keys: Annotated[Path | None, typer.Option(help="Folder of ca.crt, server.crt, server.key.")] = Path(
        "/etc/fedtag"
    ),
    fleet: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where institutions dial.")
    ] = "0.0.0.0:9092",
    port: Annotated[int, typer.Option(help="Of Flower's commands, on loopback.")] = 8000,
    watch: Annotated[int, typer.Option(help="Of /live, /ready, /status and /metrics, on loopback.")] = 8001,
    database: Annotated[
        Path | None, typer.Option(help="File of the SuperLink's state. [default: in memory]")
    ] = None,
    key: Key = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="In clear, and open to every node: for a try.")
    ] = False,
    plain_executors: Plain = False,
) -> None:
    """Run a coordinator's SuperLink and executor, and start again what ends.

    Reads the keys that `fedtag certificates` makes; writes the SuperLink's state to --database, and what a run releases
    to its own folder. Ends in order on SIGTERM: a run then stops at its last checkpoint and can be resumed.

    Example: `fedtag serve link --keys /etc/fedtag --database /var/lib/fedtag/superlink.db`
    """
    from fedtag.deploy.serving.services import LinkService, Ports

    trusted = None if insecure else keys
    LinkService(fleet, Ports(port, watch), trusted, key, database, plain_executors).serve()


@serve.command(cls=PlainCommand, rich_help_panel="Commands")
def site(
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="Of the coordinator.")],
    config: Annotated[Path, typer.Option(help="The site's folders and name, TOML.")] = Path(
        "/etc/fedtag/node.toml"
    ),
    keys: Annotated[Path | None, typer.Option(help="Folder of ca.crt and node.key.")] = Path("/etc/fedtag"),
    port: Annotated[int, typer.Option(help="Between the site's own programs, on loopback.")] = 9094,
    watch: Annotated[int, typer.Option(help="Of /live, /ready, /status and /metrics, on loopback.")] = 9095,
    key: Key = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="In clear, without a key: for a try.")] = False,
    plain_executors: Plain = False,
) -> None:
    """Run an institution's SuperNode and executor, and start again what ends.

    Reads --config and the folders that it names; writes to the site's workspace. Messages are carried out by the
    fedtag that is installed here; a run brings settings and no code. Ends in order on SIGTERM: the message in work is
    finished, or handed back.

    Example: `fedtag serve site --superlink fl.example.org:9092`
    """
    from fedtag.deploy.serving.services import Ports, SiteService

    trusted = None if insecure else keys
    SiteService(superlink, config, Ports(port, watch), trusted, key, plain_executors).serve()
