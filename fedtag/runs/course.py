"""Starting or continuing one run, following it, and saying what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.table import Table

from fedtag.common.config import RunConfig
from fedtag.deploy.federation.flower_run import run_on_flower
from fedtag.deploy.terminal.console import notices, results, say
from fedtag.deploy.terminal.display import display
from fedtag.deploy.terminal.interruption import TerminatedError, terminable
from fedtag.runs.simulation import PreparedRun, free_folder, prepare, reopen, run_in_process
from fedtag.server.report.wording import duration, size
from fedtag.server.state.progress import percentage
from fedtag.server.tracking.run_directory import SITES, RunDirectory

Engine = Literal["inprocess", "ray", "processes", "tls"]


def start(config: RunConfig, engine: Engine, debug: bool = False) -> Path:
    """A new run; its folder is `config.out`, or the next free one under runs/.

    Returns:
        the run directory.
    """
    if not config.out:
        out = str(free_folder(Path("runs").absolute(), config))
        config = config.model_copy(update={"out": out})
    with terminable():
        return carry_out(prepare(config), engine, debug)


def resume(path: Path, engine: Engine, debug: bool = False) -> Path:
    """Go on with a run that was stopped; a finished one stays as it is."""
    if RunDirectory.open(path).finished:
        say(notices(), f"{path} is finished: there is nothing to continue")
        return path.absolute()
    with terminable():
        return carry_out(reopen(path), engine, debug)


def carry_out(run: PreparedRun, engine: Engine, debug: bool) -> Path:
    """The rounds that are left, on one of the engines."""
    out = run.directory.path
    sites = len(run.sites)
    clients = f"{sites} client{'' if sites == 1 else 's'}"
    say(notices(), f"{run.config.method} over {clients}, results go to {out}")
    try:
        with display(debug) as shown:
            if engine == "inprocess":
                run_in_process(run, shown)
            else:
                run_on_flower(run, engine, shown)
    except (KeyboardInterrupt, TerminatedError):
        command = "up" if engine in ("processes", "tls") else "simulate"
        option = {"ray": " --engine ray", "tls": " --tls"}.get(engine, "")
        say(notices(), f"stopped; go on with: fedtag {command} --resume {out}{option}", "yellow")
        raise
    return out


def show_outcome(out: Path) -> None:
    """The table of one run, and where its results are."""
    console = results()
    console.print(outcome_table([out]))
    say(console, f"run directory  {out}")
    say(console, f"report         {out / 'report.html'}")
    if any((out / SITES).glob("*/evidence/*.jsonl")):
        say(console, f"evidence       fedtag audit {out}")


def outcome_table(runs: Sequence[Path]) -> Table:
    """One row a run: scores are those of the round that validation chose."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("method", no_wrap=True)
    for name in ("clients", "round", "val", "test", "macro-F1", "up", "down", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for path in runs:
        summary = RunDirectory.open(path).read_summary()
        if summary is None:
            continue
        table.add_row(
            summary.method,
            str(summary.clients),
            "–" if summary.best_round is None else f"{summary.best_round} of {summary.rounds}",
            percentage(summary.val_accuracy),
            percentage(summary.test_accuracy),
            percentage(summary.test_macro_f1),
            size(summary.bytes_up),
            size(summary.bytes_down),
            duration(summary.seconds),
        )
    return table
