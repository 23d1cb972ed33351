"""The options of the commands that run a federation, and the settings that they stand for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fedtag.common.errors import ConfigError

RUN = "The run"
DATA = "The data"


class Engine(StrEnum):
    """Where simulated clients run: one after the other in this process, or as Ray actors under Flower."""

    INPROCESS = "inprocess"
    RAY = "ray"


class Texts(StrEnum):
    """What a condensed node's text is: selected chunks word for word, or the language model's summary of them."""

    CHUNKS = "chunks"
    SUMMARIES = "summaries"


def _remember_debug(context: typer.Context, value: bool) -> bool:
    context.meta["fedtag.debug"] = value
    return value


Debug = Annotated[
    bool, typer.Option("--debug", callback=_remember_debug, help="Show tracebacks and more of the log.")
]
Method = Annotated[
    str | None,
    typer.Option(
        help="isolated, centralised, fedavg, dance, fedc4, da_dfgas or fedgc. [default: dance]",
        rich_help_panel=RUN,
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        help="Folder, feature graph .npz, public set by name, or pydocs; several folders are one client each. "
        "[default: pydocs]",
        rich_help_panel=DATA,
    ),
]
Clients = Annotated[int | None, typer.Option(help="Simulated clients. [default: 5]", rich_help_panel=DATA)]
Rounds = Annotated[int | None, typer.Option(help="Rounds of training. [default: 100]", rich_help_panel=RUN)]
Ratio = Annotated[
    float | None, typer.Option(help="Condensed nodes / nodes. [default: 0.08]", rich_help_panel=RUN)
]
Condenser = Annotated[
    str | None,
    typer.Option(
        help="What fedavg and da_dfgas train on instead of clients' graphs: gcond, gcond-x, doscond, sfgc, random, "
        "herding, k-center, coarsening or dance-core. [default: none]",
        rich_help_panel=RUN,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Of every random draw. [default: 0]", rich_help_panel=RUN)]
Out = Annotated[
    Path | None, typer.Option(help="Run directory. [default: runs/METHOD-DATA-N]", rich_help_panel=RUN)
]
Config = Annotated[
    Path | None,
    typer.Option(help="TOML with any settings, for example a run's config.toml.", rich_help_panel=RUN),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any setting; `fedtag settings` lists them.", rich_help_panel=RUN
    ),
]
Partition = Annotated[
    str | None,
    typer.Option(
        help="louvain, metis, random, dirichlet, or a partition file. [default: louvain]",
        rich_help_panel=DATA,
    ),
]
Split = Annotated[
    str | None,
    typer.Option(help="given, or train,val,test such as 0.6,0.2,0.2. [default: given]", rich_help_panel=DATA),
]
Overlap = Annotated[
    float | None,
    typer.Option(help="Share of its size that a client borrows. [default: 0]", rich_help_panel=DATA),
]
Summaries = Annotated[
    int | None,
    typer.Option(help="Most summaries of evidence that a site writes. [default: 0]", rich_help_panel=RUN),
]
Device = Annotated[
    str | None, typer.Option(help="auto, cpu, cuda, cuda:0, ... [default: auto]", rich_help_panel=RUN)
]
Deadline = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="An exchange goes on without the rest after so long, and a client ends its training after 0.8 of it: "
        "partial work counts with its number of steps, for which --set aggregation.normalise=fednova corrects. "
        "Exchanges of round 1, where texts are encoded, wait for exchange.first-deadline. [default: 600]",
        rich_help_panel=RUN,
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN_DIR", help="Go on with a stopped run, by its own settings.", rich_help_panel=RUN
    ),
]
Tls = Annotated[
    bool,
    typer.Option("--tls", help="Encrypt, and let in registered nodes only.", rich_help_panel=RUN),
]
EngineChoice = Annotated[
    Engine, typer.Option(help="In this process, or Flower's Ray simulation.", rich_help_panel=RUN)
]


def named_options(
    method: str | None,
    data: list[str] | None,
    clients: int | None,
    rounds: int | None,
    ratio: float | None,
    seed: int | None,
    out: Path | None,
    partition: str | None,
    split: str | None,
    overlap: float | None,
    summaries: int | None,
    device: str | None,
    deadline: float | None,
    condenser: str | None,
) -> dict[str, Any]:
    """The named options that were given, by setting; several folders are as many clients."""
    sources = data or []
    if not all(source.strip() for source in sources):
        raise ConfigError("--data is empty: name a folder, a .npz graph, a public set, or pydocs")
    if method is not None and not method.strip():
        raise ConfigError(
            "--method is empty: use isolated, centralised, fedavg, dance, fedc4, da_dfgas or fedgc"
        )
    options = {
        "method": method,
        "data.source": ";".join(sources) or None,
        "clients": len(sources) if clients is None and len(sources) > 1 else clients,
        "rounds": rounds,
        "ratio": ratio,
        "condenser.name": condenser,
        "seed": seed,
        "out": str(out) if out is not None else None,
        "data.partition": partition,
        "data.split": split,
        "data.overlap": overlap,
        "summaries.limit": summaries,
        "device": device,
        "exchange.deadline": deadline,
    }
    return {key: value for key, value in options.items() if value is not None}
