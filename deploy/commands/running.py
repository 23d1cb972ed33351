"""Commands that run a federation: simulate, up, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedtag.deploy.commands.options import (
    Clients,
    Condenser,
    Config,
    Data,
    Deadline,
    Debug,
    Device,
    Engine,
    EngineChoice,
    Method,
    Out,
    Overlap,
    Partition,
    Ratio,
    Resume,
    Rounds,
    Seed,
    Settings,
    Split,
    Summaries,
    Tls,
    named_options,
)


def simulate(
    method: Method = None,
    data: Data = None,
    clients: Clients = None,
    rounds: Rounds = None,
    ratio: Ratio = None,
    condenser: Condenser = None,
    seed: Seed = None,
    out: Out = None,
    engine: EngineChoice = Engine.INPROCESS,
    config: Config = None,
    settings: Settings = None,
    partition: Partition = None,
    split: Split = None,
    overlap: Overlap = None,
    summaries: Summaries = None,
    device: Device = None,
    deadline: Deadline = None,
    resume: Resume = None,
    debug: Debug = False,
) -> None:
    """Run a federation on this machine.

    Reads the data and, with --config, a TOML file; writes the run directory: settings, metrics, model,
    report.html, and the clients' folders in sites/. Encoded texts are kept in FEDTAG_CACHE
    (~/.cache/fedtag). Settings count in this order: --set, named options, --config, defaults.

    Example: `fedtag simulate --method fedavg --data pydocs --clients 3 --rounds 30 --set train.epochs=2`
    """
    given = named_options(
        method,
        data,
        clients,
        rounds,
        ratio,
        seed,
        out,
        partition,
        split,
        overlap,
        summaries,
        device,
        deadline,
        condenser,
    )
    _run(engine.value, resume, config, given, settings or [], debug)


def up(
    method: Method = None,
    data: Data = None,
    clients: Clients = None,
    rounds: Rounds = None,
    ratio: Ratio = None,
    condenser: Condenser = None,
    seed: Seed = None,
    out: Out = None,
    config: Config = None,
    settings: Settings = None,
    partition: Partition = None,
    split: Split = None,
    overlap: Overlap = None,
    summaries: Summaries = None,
    device: Device = None,
    deadline: Deadline = None,
    resume: Resume = None,
    tls: Tls = False,
    debug: Debug = False,
) -> None:
    """Run the same federation as real Flower processes on loopback.

    Starts one SuperLink and one SuperNode a client, which speak gRPC, and stops them at the end. Reads and
    writes what `simulate` does; the processes' logs go to logs/ in the run directory. With --tls they encrypt and
    know each other by keys, as between machines: certificates are made for the run and removed with it.

    Example: `fedtag up --method fedavg --data site-a --data site-b --rounds 20`
    """
    given = named_options(
        method,
        data,
        clients,
        rounds,
        ratio,
        seed,
        out,
        partition,
        split,
        overlap,
        summaries,
        device,
        deadline,
        condenser,
    )
    _run("tls" if tls else "processes", resume, config, given, settings or [], debug)


def demo(
    out: Annotated[Path, typer.Option(help="Folder of all runs; the next free name if taken.")] = Path(
        "runs/demo"
    ),
    methods: Annotated[str, typer.Option(help="In the order of the table.")] = "isolated,fedavg,dance",
    data: Annotated[str, typer.Option(help="As for simulate.")] = "pydocs",
    clients: Annotated[int, typer.Option(help="Simulated clients.")] = 3,
    rounds: Annotated[int, typer.Option(help="Of each method.")] = 60,
    debug: Debug = False,
) -> None:
    """See it work: three methods on a real graph that needs no download, in minutes.

    Reads the docstrings of the installed SciPy; writes one run directory a method, a comparison and the
    pages of evidence.

    Example: `fedtag demo`
    """
    from fedtag.runs.demo import run_demo

    names = [name.strip() for name in methods.split(",") if name.strip()]
    run_demo(out, names, data, clients, rounds, debug)


def _run(
    engine: Any,
    resume: Path | None,
    file: Path | None,
    given: dict[str, Any],
    settings: list[str],
    debug: bool,
) -> None:
    from fedtag.common.errors import ConfigError
    from fedtag.runs.course import resume as go_on
    from fedtag.runs.course import show_outcome, start
    from fedtag.runs.settings import gather

    if resume is None:
        out = start(gather(file, given, settings), engine, debug)
    elif given or settings or file:
        raise ConfigError(
            f"--resume {resume} takes every setting from its config.toml; leave the others out."
        )
    else:
        out = go_on(resume, engine, debug)
    show_outcome(out)
