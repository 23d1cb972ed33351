"""An institution's folder on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from fedtag.deploy.terminal.console import results, say
from fedtag.graph.validation import SPLITS, ValidFolder


def show_folder(found: ValidFolder, folder: Path) -> None:
    """Sizes, repairs and classes of a folder that keeps the contract."""
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
    say(console, f"{folder} keeps the contract", "green")


def description(found: ValidFolder) -> list[str]:
    """Sizes and repairs, one line each."""
    graph, repairs = found.graph, found.repairs
    letters = sum(map(len, graph.texts))
    lines = [
        f"name      {graph.name}",
        f"nodes     {graph.num_nodes:,}",
        f"edges     {len(graph.edges):,}, {'directed' if graph.directed else 'undirected'}",
        f"texts     {letters:,} characters, the longest {max(map(len, graph.texts), default=0):,}",
    ]
    if graph.features is not None:
        lines.append(f"features  {graph.features.shape[1]:,} a node, used in place of encoded text")
    if len(graph.cross_edges):
        peers = len(set(graph.cross_edges.peer))
        lines.append(f"crossing  {len(graph.cross_edges):,} edges into {peers} other institutions")
    counted = {
        "self-loops left out": repairs.self_loops,
        "duplicate edges left out": repairs.duplicate_edges,
        "empty texts": repairs.empty_texts,
        "nodes without an edge": repairs.isolated_nodes,
    }
    noted = [f"{count:,} {what}" for what, count in counted.items() if count]
    lines.append(f"noted     {', '.join(noted) or 'nothing to repair'}")
    return lines
