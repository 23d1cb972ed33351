"""What came of a comparison, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.table import Table
from rich.text import Text

from fedtag.comparison.outcome import PAGE
from fedtag.deploy.terminal.console import notices, results, say
from fedtag.server.comparison.results import Comparison, lines
from fedtag.server.comparison.tables import costs, scores, seeds_done


def show_comparison(comparison: Comparison, home: Path) -> None:
    """The table of each data set, and where the rest is."""
    console = results()
    every = list(lines(comparison))
    for data in comparison.data:
        table = Table(
            title=Text(data),
            title_justify="left",
            box=None,
            pad_edge=False,
            header_style="dim",
            title_style="bold",
        )
        table.add_column("row", no_wrap=True)
        headings = (
            "seeds",
            "val",
            "test",
            "difference",
            *comparison.other_metrics.values(),
            "calibration",
            "up/round",
            "down/round",
            "round",
        )
        for name in headings:
            table.add_column(name, justify="right", no_wrap=True)
        for line in every:
            if line.data == data:
                table.add_row(Text(line.row), seeds_done(line), *scores(line, comparison), *costs(line)[:3])
        console.print(table)
        console.print()
    say(
        console,
        f"mean ± standard deviation over seeds {', '.join(map(str, comparison.seeds))}, in percent; val and test are "
        f"{comparison.title_of_metric}; difference in test to {comparison.baseline} with its 95% interval (Student's "
        "t, paired by seed)",
        "dim",
    )
    if comparison.note:
        say(console, comparison.note, "dim")
    for name in ("comparison.md", "comparison.csv", PAGE):
        say(console, str(home / name))


def show_failures(failures: Mapping[str, str]) -> None:
    """Why cells failed, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in failures.items():
        by_reason.setdefault(reason, []).append(name)
    console = notices()
    for reason, names in by_reason.items():
        say(console, f"failed: {'; '.join(names)}", "red")
        say(console, f"  {reason}", "red")
    say(console, "the same command tries again what failed and keeps the rest", "yellow")
