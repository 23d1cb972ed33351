"""An institution's folder on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from fedtag.client.data.splitting import drawn_note
from fedtag.client.site.site import site_name
from fedtag.common.wording.counts import plural
from fedtag.deploy.terminal.console import results, say
from fedtag.graph.validation import SPLITS, ValidData


def show_data(found: ValidData) -> None:
    """Sizes, repairs and classes of data that keep the contract."""
    console = results()
    for line in description(found):
        say(console, line)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("class")
    for name in (*SPLITS, "all"):
        table.add_column(name, justify="right")
    for one in found.classes:
        table.add_row(Text(one.name), *(f"{count:,}" for count in (*one.nodes, sum(one.nodes))))
    console.print(table)
    say(console, f"{found.source} keeps the contract", "green")


def show_written(file: Path | None) -> None:
    """Where a drawn split was written down."""
    say(results(), "split given already, nothing to write" if file is None else f"split written to {file}")


def description(found: ValidData) -> list[str]:
    """Sizes and repairs, one line each."""
    graph, repairs = found.graph, found.repairs
    letters = sum(map(len, graph.texts))
    called = site_name(graph.name)
    lines = [
        f"name      {graph.name}" + (f", as a site {called}" if called != graph.name else ""),
        f"nodes     {graph.num_nodes:,}",
        f"edges     {len(graph.edges):,}, {'directed' if graph.directed else 'undirected'}",
        f"texts     {letters:,} characters, the longest {max(map(len, graph.texts), default=0):,}",
    ]
    if graph.features is not None:
        lines.append(f"features  {graph.features.shape[1]:,} a node, used in place of encoded text")
    if len(graph.cross_edges):
        peers = len(set(graph.cross_edges.peer))
        lines.append(
            f"crossing  {plural(len(graph.cross_edges), 'edge')} into {plural(peers, 'other institution')}"
        )
    counted = {
        "self-loops left out": repairs.self_loops,
        "duplicate edges left out": repairs.duplicate_edges,
        "empty texts": repairs.empty_texts,
        "nodes without an edge": repairs.isolated_nodes,
    }
    noted = [f"{count:,} {what}" for what, count in counted.items() if count]
    lines.append(f"noted     {', '.join(noted) or 'nothing to repair'}")
    if graph.split_drawn:
        lines.append(f"split     {drawn_note()}")
    return lines
