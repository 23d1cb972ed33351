"""The command that writes the app of a run between machines: bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import (
    Condenser,
    Config,
    Deadline,
    Debug,
    Device,
    Method,
    Out,
    Ratio,
    Rounds,
    Seed,
    Settings,
    Summaries,
    named_options,
)


def bundle(
    app: Annotated[
        Path, typer.Argument(help="Folder of the app; new, or an earlier app's.", show_default=False)
    ],
    method: Method = None,
    clients: Annotated[int | None, typer.Option(help="Institutions to wait for. [default: 5]")] = None,
    rounds: Rounds = None,
    ratio: Ratio = None,
    condenser: Condenser = None,
    seed: Seed = None,
    out: Out = None,
    config: Config = None,
    settings: Settings = None,
    summaries: Summaries = None,
    device: Device = None,
    deadline: Deadline = None,
    debug: Debug = False,
) -> None:
    """Write the app for `flwr run`: the settings of a run between machines.

    Reads, with --config, a TOML file; writes one pyproject.toml with the settings, the two components, and the
    release and protocol of this fedtag. It holds no code: all machines have fedtag installed. `flwr run --run-config`
    can still change single settings. The run directory, --out, is one on the server.

    Example: `fedtag bundle app --method fedavg --clients 3 --rounds 20`
    """
    from fedtag.deploy.federation.bundle import write_app
    from fedtag.deploy.terminal.console import results, say
    from fedtag.runs.settings import given_settings

    given = named_options(
        method,
        None,
        clients,
        rounds,
        ratio,
        seed,
        out,
        None,
        None,
        None,
        summaries,
        device,
        deadline,
        condenser,
    )
    folder = write_app(app, given_settings(config, given, settings or []))
    say(results(), f"app  {folder}")
    say(results(), f"run  flwr run {folder} CONNECTION --stream")
