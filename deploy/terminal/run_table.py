"""What came of runs, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from fedtag.deploy.terminal.console import results, say
from fedtag.runs.demo import Demonstration
from fedtag.server.pages.wording import duration, size
from fedtag.server.state.progress import percentage, with_spread
from fedtag.server.tracking.run_directory import SITES, RunDirectory


def show_run(out: Path) -> None:
    """The table of one run, and where its results are."""
    console = results()
    console.print(run_table([out]))
    say(console, f"run directory  {out}")
    say(console, f"report         {out / 'report.html'}")
    if any((out / SITES).glob("*/evidence/*.jsonl")):
        say(console, f"evidence       fedtag audit {out}")


def show_demonstration(made: Demonstration) -> None:
    """The table of all runs, and the pages."""
    console = results()
    console.print(run_table(made.runs))
    say(console, f"report  {made.report}")
    for page in made.pages:
        say(console, f"audit   {page}")


def run_table(runs: Sequence[Path]) -> Table:
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
            with_spread(summary.val_accuracy, summary.val_spread),
            with_spread(summary.test_accuracy, summary.test_spread),
            percentage(summary.test_macro_f1),
            size(summary.bytes_up),
            size(summary.bytes_down),
            duration(summary.seconds),
        )
    return table
