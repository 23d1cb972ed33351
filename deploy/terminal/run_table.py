"""What came of runs, on the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from fedtag.common.wording.scoring import ACCURACY, MACRO_F1, METRICS
from fedtag.common.wording.visible import visible_line
from fedtag.deploy.terminal.console import results, say
from fedtag.runs.overview import Difference, RunEntry
from fedtag.server.comparison.results import score
from fedtag.server.pages.wording import duration, size
from fedtag.server.state.progress import percentage, with_spread
from fedtag.server.tracking.run_directory import SITES, RunDirectory

DECIMALS, MOST_DECIMALS = 4, 17
"""Of numbers that differ: how many are shown where they tell them apart, and how many a float has at the most."""
FINGERPRINT = re.compile("[0-9a-f]{64}")


def show_run(out: Path) -> None:
    """The table of one run, and where its results are."""
    console = results()
    console.print(run_table([out]))
    say(console, f"run directory  {out}")
    say(console, f"report         {out / 'report.html'}")
    if any((out / SITES).glob("*/evidence/*.parquet")):
        say(console, f"evidence       fedtag audit {out}")


def show_entries(entries: Sequence[RunEntry]) -> bool:
    """The runs of a folder, and what is wrong with some; whether nothing is."""
    console = results()
    if not entries:
        say(console, "no run is there")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("run", overflow="fold")
    for name in ("method", "data", "state", "metric"):
        table.add_column(name, overflow="fold")
    for name in ("rounds", "val", "test"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("date", no_wrap=True)
    table.add_column("parent", overflow="fold")
    for one in entries:
        done = "–" if one.rounds is None else str(one.rounds)
        rounds = done if one.planned in (None, one.rounds) else f"{done} of {one.planned}"
        scores = (percentage(one.val), percentage(one.test))
        cells = (one.run, one.method, one.data, one.state, one.metric, rounds, *scores, one.date, one.parent)
        table.add_row(*map(Text, map(visible_line, cells)))
    if entries:
        console.print(table)
    troubles = [one for one in entries if one.trouble]
    for one in troubles:
        say(console, f"{one.run}: {one.trouble}")
    return not troubles


def show_differences(first: Path, second: Path, found: Sequence[Difference]) -> None:
    """Settings and results that differ, with the values of both runs, as short as they still differ."""
    console = results()
    if not found:
        say(console, "settings and results are the same")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "name", str(first), str(second)):
        table.add_column(Text(visible_line(name)), overflow="fold")
    for one in found:
        table.add_row(*map(Text, map(visible_line, (one.kind, one.name, *shortened(*one.values)))))
    console.print(table)


def shortened(first: Any, second: Any) -> tuple[str, str]:
    """Two values that differ, rounded and cut as far as they are still told apart; a dash where there is none."""
    shown = ("", "")
    for digits in range(DECIMALS, MOST_DECIMALS):
        shown = _short(first, digits), _short(second, digits)
        if shown[0] != shown[1]:
            break
    return shown


def _short(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return f"{round(value, digits)}"
    if isinstance(value, str) and FINGERPRINT.fullmatch(value):
        return value[: 2 * digits]
    return "–" if value is None else f"{value}"


def run_table(runs: Sequence[Path]) -> Table:
    """One row a run: scores are those of the round that validation chose.

    `val` and `test` are accuracies; a metric by which a run was chosen has a column of its own.
    """
    found = [summary for path in runs if (summary := RunDirectory.open(path).read_summary()) is not None]
    metrics = [
        metric
        for metric in METRICS
        if metric == MACRO_F1 or (metric != ACCURACY and any(one.metric == metric for one in found))
    ]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("method", no_wrap=True)
    titles = [METRICS[metric] for metric in metrics]
    for name in ("clients", "round", "val", "test", *titles, "up", "down", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for summary in found:
        table.add_row(
            summary.method,
            str(summary.clients),
            "–" if summary.best_round is None else f"{summary.best_round} of {summary.rounds}",
            with_spread(summary.val_accuracy, summary.val_spread),
            with_spread(summary.test_accuracy, summary.test_spread),
            *(percentage(score(summary, "test", metric)) for metric in metrics),
            size(summary.bytes_up),
            size(summary.bytes_down),
            duration(summary.seconds),
        )
    return table
