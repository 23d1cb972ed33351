"""What the demonstration showed, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from fedtag.comparison.demonstration import Demonstration
from fedtag.comparison.turned_nodes import Turned, TurnedNode
from fedtag.deploy.terminal.console import results, say
from fedtag.runs.stopwatch import Stopwatch
from fedtag.server.comparison.cells import percents
from fedtag.server.comparison.results import Comparison, lines, tested
from fedtag.server.comparison.statistics import LEAST_PAIRS, paired_difference
from fedtag.server.comparison.tables import points, seeds_done

NAMED = 2
"""How many nodes are named."""
LENGTH = 100
"""The characters of a node's text that are shown."""


def show_demonstration(shown: Demonstration, watch: Stopwatch) -> None:
    """The table, what it does not tell apart, the pages, two nodes, and seconds by part."""
    console, comparison = results(), shown.made.comparison
    console.print(row_table(shown))
    for sentence in told_apart(comparison):
        say(console, sentence)
    say(console, f"report  {shown.report}")
    if shown.audit is not None:
        say(console, f"audit   {shown.audit}")
    if shown.turned is not None:
        show_turned(console, shown.turned)
    console.print(part_table(watch))


def row_table(shown: Demonstration) -> Table:
    """A row of the study a line: what it shows, and its accuracy over seeds in percent."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("row", "what it shows"):
        table.add_column(name)
    for name in ("seeds", "validation", "test", "processor s"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = {row.name: row.shows for row in shown.study.rows}
    for line in lines(shown.made.comparison):
        seconds = "–" if line.cpu_seconds is None else f"{line.cpu_seconds.mean * line.cpu_seconds.count:.1f}"
        table.add_row(
            line.row, rows[line.row], seeds_done(line), percents(line.val), percents(line.test), seconds
        )
    return table


def told_apart(comparison: Comparison) -> Iterator[str]:
    """Of each row and the one before it, whether the seeds tell them apart."""
    (data,) = comparison.data
    for first, second in pairwise(row.name for row in comparison.rows):
        before, after = (tested(comparison.of(row, data), comparison.metric) for row in (first, second))
        found = paired_difference(after, before)
        if found is None:
            continue
        said = f"{second} − {first}: {points(found)} points"
        if found.low is None or found.high is None:
            yield f"{said}; {found.count} of at least {LEAST_PAIRS} seeds tell nothing apart"
        elif found.low <= 0 <= found.high:
            yield f"{said}: {found.count} seeds do not tell them apart"
        else:
            yield f"{said}: told apart by {found.count} seeds"


def show_turned(console: Console, turned: Turned) -> None:
    """How often links decide at the audited site, and the surest mistakes of the text alone that they set right."""
    say(
        console,
        f"Of {turned.tested} test nodes of {turned.site}, links set {len(turned.right)} right that text alone gets "
        f"wrong, and {turned.wrong} wrong that it gets right. Its surest mistakes among the former:",
    )
    for one in turned.right[:NAMED]:
        for text in node_lines(one):
            say(console, text)


def node_lines(one: TurnedNode) -> list[str]:
    """A node in three lines."""
    text, (guess, share) = " ".join(one.text.split()), one.by_text
    near = ", ".join(f"{name} ({label or 'no class'})" for name, label in one.neighbours)
    return [
        f"  {one.node}: “{text if len(text) <= LENGTH else text[:LENGTH] + '…'}”",
        f"    text alone says {guess} ({100 * share:.0f}%); its evidence says {one.label}, which is right",
        f"    what counted most around it: {near or 'nothing'}",
    ]


def part_table(watch: Stopwatch) -> Table:
    """Seconds by part, and all."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("part")
    for name in ("seconds", "processor s"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, cost in (*watch.parts.items(), ("all", watch.total)):
        table.add_row(name, f"{cost.wall:.1f}", f"{cost.processor:.1f}")
    return table
