"""Commands that run a federation: simulate, up, demo."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedtag.common.errors import ConfigError, RunError
from fedtag.deploy.commands.options import (
    RUN,
    Debug,
    Engine,
    Resume,
    RunOptions,
    SharedOptions,
    Start,
    flattened,
)

if TYPE_CHECKING:
    from fedtag.runs import course

EngineName = Literal["inprocess", "stacked", "ray", "processes", "tls"]


@flattened
def simulate(
    run: RunOptions,
    shared: SharedOptions,
    engine: Annotated[
        Engine,
        typer.Option(
            help="In this process; there, but all clients trained at once, for methods that can; or Flower's Ray "
            "simulation.",
            rich_help_panel=RUN,
        ),
    ] = Engine.INPROCESS,
    start: Start = None,
    resume: Resume = None,
    debug: Debug = False,
) -> None:
    """Run a federation on this machine.

    Reads the data and, with --config, a TOML file; writes the run directory: settings, metrics, model,
    report.html, and the clients' folders in sites/. Encoded texts are kept in FEDTAG_CACHE
    (~/.cache/fedtag). Settings count in this order: --set, named options, --config, defaults.

    Example: `fedtag simulate --data pydocs-brief --clients 3 --rounds 30 --set train.epochs=2`
    """
    _carry_out(run, shared, engine.value, start, resume, debug)


@flattened
def up(
    run: RunOptions,
    shared: SharedOptions,
    start: Start = None,
    resume: Resume = None,
    tls: Annotated[
        bool,
        typer.Option("--tls", help="Encrypt, and let in registered nodes only.", rich_help_panel=RUN),
    ] = False,
    plain_executors: Annotated[
        bool,
        typer.Option(
            "--plain-executors", help="Flower's own executors in place of fedtag's.", rich_help_panel=RUN
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Run the same federation as real Flower processes on loopback.

    Starts one SuperLink and one SuperNode a client, which speak gRPC, and stops them at the end. Reads and
    writes what `simulate` does; the processes' logs go to logs/ in the run directory. With --tls they encrypt and
    know each other by keys, as between machines: certificates are made for the run and removed with it.

    Example: `fedtag up --data site-a --data site-b --rounds 20`
    """
    _carry_out(run, shared, "tls" if tls else "processes", start, resume, debug, plain_executors)


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder of all runs; those that are there are used again.")
    ] = Path("runs/demo"),
    data: Annotated[
        str | None,
        typer.Option(
            help="As for simulate; pydocs has longer texts, and takes minutes. [default: pydocs-brief]"
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Draws of labels. [default: 3]")] = None,
    clients: Annotated[int | None, typer.Option(help="Simulated clients. [default: 3]")] = None,
    rounds: Annotated[int | None, typer.Option(help="Of each run. [default: 20]")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at once, each in a process of one thread.")] = 2,
    debug: Debug = False,
) -> None:
    """See it work: what links and a federation bring, on a real graph that needs no download.

    Reads what the functions of the installed SciPy say of themselves, one in ten labelled, and compares their text
    alone, isolated clients and federations. Writes what `compare` does, and a page of evidence. Encoded texts and
    finished runs are kept, so that the same command goes on where it was stopped.

    Example: `fedtag demo`
    """
    from fedtag.runs.stopwatch import Stopwatch

    watch = Stopwatch()
    with watch.part("programs loaded"):
        from fedtag.comparison.demonstration import demo_study, demonstrate
        from fedtag.deploy.terminal.cell_bars import cell_bars
        from fedtag.deploy.terminal.comparison_table import show_failures
        from fedtag.deploy.terminal.demonstration_view import show_demonstration
        from fedtag.deploy.terminal.display import display
        from fedtag.deploy.terminal.interruption import terminable

    study = demo_study(data, {"seeds": seeds, "clients": clients, "rounds": rounds})
    with terminable():
        shown = demonstrate(study, out, jobs, watch, partial(display, debug), cell_bars, debug)
    show_demonstration(shown, watch)
    if shown.made.failures:
        show_failures(shown.made.failures)
        raise typer.Exit(1)


def _carry_out(
    run: RunOptions,
    shared: SharedOptions,
    engine: EngineName,
    start: Path | None,
    resume: Path | None,
    debug: bool,
    plain: bool = False,
) -> None:
    """Start a run, or go on with one, and show what came of it."""
    from fedtag.common.config.places import check_apart
    from fedtag.deploy.terminal.display import display
    from fedtag.deploy.terminal.interruption import terminable
    from fedtag.deploy.terminal.run_table import show_run
    from fedtag.runs import course
    from fedtag.runs.settings import collected, gather

    named, assignments = run.chosen() | shared.chosen(), shared.assignments or []
    if engine == "stacked":
        named["engine"] = engine
    with display(debug) as progress, terminable():
        if resume is None:
            config = gather(shared.config, named, assignments)
            if engine not in ("inprocess", "stacked"):
                check_apart({"engine": config.engine})
            out = course.start(config, _engine(engine, plain), progress, parent=start)
        elif "rounds" in named and not start:
            given = collected(shared.config, named, assignments)
            out = course.extend(resume, given, _engine(engine, plain), progress)
        elif named or assignments or shared.config or start:
            raise ConfigError(
                f"--resume {resume} takes every setting from its config.toml: leave the others out; a finished run is "
                "extended with --rounds."
            )
        else:
            out = course.resume(resume, _engine(engine, plain), progress)
    show_run(out)


def _engine(name: EngineName, plain: bool = False) -> "course.Engine":
    """What carries out the rounds of a run; where it is stopped, it says how the run goes on."""
    from fedtag.deploy.terminal.display import resumable
    from fedtag.runs.progress import Progress
    from fedtag.runs.simulation import PreparedRun, run_in_process
    from fedtag.server.tracking.status import read_status

    command = "up" if name in ("processes", "tls") else "simulate"
    option = {"ray": " --engine ray", "tls": " --tls"}.get(name, "")

    def carry_out(prepared: PreparedRun, progress: Progress) -> None:
        path = prepared.directory.path

        def advice() -> str:
            again = f"go on with: fedtag {command} --resume {path}{option}"
            try:
                # The server writes it first of all.
                begun = read_status(path) is not None
            except RunError:
                # What stopped the run is told, and not this.
                return again
            if begun:
                return again
            return f"nothing of the run is done: {again}; or delete {path}, and start it anew with other settings"

        with resumable(advice):
            if name == "inprocess" or name == "stacked":
                run_in_process(prepared, progress)
                return
            from fedtag.deploy.federation.flower_run import run_on_flower

            run_on_flower(prepared, name, progress, plain)

    return carry_out
