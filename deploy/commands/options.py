"""The options that several commands have, and the settings that they stand for.

A command that takes one of the tables below as an argument gets the fields of the table as options of its own.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fedtag.common.errors import ConfigError
from fedtag.deploy.terminal.endings import DEBUG

RUN = "The run"
DATA = "The data"


class Engine(StrEnum):
    """Where simulated clients run: one after the other in this process, all at once, or as Ray actors under Flower."""

    INPROCESS = "inprocess"
    STACKED = "stacked"
    RAY = "ray"


def _remember_debug(context: typer.Context, value: bool) -> bool:
    context.meta[DEBUG] = value
    return value


Debug = Annotated[
    bool, typer.Option("--debug", callback=_remember_debug, help="Show tracebacks and more of the log.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:0, ...")]
Cache = Annotated[
    Path | None,
    typer.Option(help="Folder of encoded texts. [default: FEDTAG_CACHE, or ~/.cache/fedtag]"),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN_DIR",
        help="Go on with a stopped run, by its own settings; with --rounds extend a finished one, as a new run.",
        rich_help_panel=RUN,
    ),
]

Start = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RUN_DIR",
        help="Train on from the model that an earlier run released. [default: from the seed]",
        rich_help_panel=RUN,
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """The options of one run."""

    method: Annotated[
        str | None,
        typer.Option(
            help="A method or preset; `fedtag methods` lists them. [default: see `fedtag settings`]",
            rich_help_panel=RUN,
        ),
    ] = None
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder, feature graph .npz, public set by name, pydocs-brief or pydocs; several folders are one "
            "client each. [default: pydocs-brief]",
            rich_help_panel=DATA,
        ),
    ] = None
    ratio: Annotated[
        float | None, typer.Option(help="Condensed nodes / nodes. [default: 0.08]", rich_help_panel=RUN)
    ] = None
    condenser: Annotated[
        str | None,
        typer.Option(
            help="What makes the graphs that clients train on in place of their own, for methods that take any; "
            "`fedtag methods` lists them. [default: none]",
            rich_help_panel=RUN,
        ),
    ] = None
    parts: Annotated[
        str | None,
        typer.Option(
            help="What stands around the method, the innermost first, as in a,b; `fedtag methods` lists them. "
            "[default: none]",
            rich_help_panel=RUN,
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option(help="Of every random draw. [default: 0]", rich_help_panel=RUN)
    ] = None
    out: Annotated[
        Path | None, typer.Option(help="Run directory. [default: runs/METHOD-DATA-N]", rich_help_panel=RUN)
    ] = None

    def chosen(self) -> dict[str, Any]:
        """Those that were given, by setting; several folders are as many clients.

        Raises:
            ConfigError: one is empty.
        """
        sources = self.data or []
        if not all(source.strip() for source in sources):
            raise ConfigError("--data is empty: name a folder, a .npz graph, a public set, or pydocs-brief")
        if self.method is not None and not self.method.strip():
            raise ConfigError("--method is empty: name one that `fedtag methods` lists")
        return given(
            {
                "method": self.method,
                "data.source": ";".join(sources) or None,
                "clients": len(sources) if len(sources) > 1 else None,
                "ratio": self.ratio,
                "condenser.name": self.condenser,
                "parts": self.parts,
                "seed": self.seed,
                "out": None if self.out is None else str(self.out),
            }
        )


@dataclass(frozen=True)
class SharedOptions:
    """The options of one run and of the runs of a comparison."""

    clients: Annotated[
        int | None, typer.Option(help="Simulated clients. [default: 5]", rich_help_panel=DATA)
    ] = None
    rounds: Annotated[
        int | None, typer.Option(help="Rounds of training. [default: 100]", rich_help_panel=RUN)
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(help="TOML with any settings, for example a run's config.toml.", rich_help_panel=RUN),
    ] = None
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any setting; `fedtag settings` lists them.",
            rich_help_panel=RUN,
        ),
    ] = None
    partition: Annotated[
        str | None,
        typer.Option(
            help="louvain, metis, random, dirichlet, or a partition file. [default: louvain]",
            rich_help_panel=DATA,
        ),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(
            help="given, or train,val,test such as 0.6,0.2,0.2. [default: given]", rich_help_panel=DATA
        ),
    ] = None
    overlap: Annotated[
        float | None,
        typer.Option(help="Share of its size that a client borrows. [default: 0]", rich_help_panel=DATA),
    ] = None
    summaries: Annotated[
        int | None,
        typer.Option(help="Most summaries of evidence that a site writes. [default: 0]", rich_help_panel=RUN),
    ] = None
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda, cuda:0, ... [default: auto]", rich_help_panel=RUN)
    ] = None
    deadline: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="An exchange goes on without the rest after so long, and a client ends its training after 0.8 of it: "
            "partial work counts with its number of steps, for which --set aggregation.normalise=fednova corrects. "
            "Exchanges of round 1, where texts are encoded, wait for exchange.first-deadline. [default: 600]",
            rich_help_panel=RUN,
        ),
    ] = None

    def chosen(self) -> dict[str, Any]:
        """Those that were given, by setting; neither the file nor single settings."""
        return given(
            {
                "clients": self.clients,
                "rounds": self.rounds,
                "data.partition": self.partition,
                "data.split": self.split,
                "data.overlap": self.overlap,
                "summaries.limit": self.summaries,
                "device": self.device,
                "exchange.deadline": self.deadline,
            }
        )


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options without those that were not given."""
    return {key: value for key, value in options.items() if value is not None}


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer is to see it: the fields of its tables are options beside those of its own."""
    own = inspect.signature(command)
    tables: dict[str, Any] = {
        name: one.annotation for name, one in own.parameters.items() if is_dataclass(one.annotation)
    }
    shown: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        if name not in tables:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        shown += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
            )
            for field in fields(tables[name])
        ]

    def called(**values: Any) -> None:
        filled = {
            name: table(**{field.name: values.pop(field.name) for field in fields(table)})
            for name, table in tables.items()
        }
        command(**filled, **values)

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    called.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    return called
