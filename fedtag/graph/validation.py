"""An institution's folder, checked offline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from fedtag.client.data.folder import FolderReading, read_folder
from fedtag.client.data.text_graph import SPLIT_NAMES
from fedtag.deploy.terminal.console import results, say


def validate_folder(folder: Path) -> None:
    """Say what a folder holds; nothing is written.

    Raises:
        DataError: with every problem.
    """
    reading = read_folder(folder)
    console = results()
    for line in description(reading):
        say(console, line)
    console.print(class_table(reading))
    say(console, f"{folder} keeps the contract", "green")


def description(reading: FolderReading) -> list[str]:
    """Sizes and repairs, one line each."""
    graph, repairs = reading.graph, reading.repairs
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


def class_table(reading: FolderReading) -> Table:
    """Nodes of each class in each split."""
    graph = reading.graph
    splits = (1, 2, 3, 0)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("class")
    for name in (*(SPLIT_NAMES[split] for split in splits), "all"):
        table.add_column(name, justify="right")
    for label, name in [*enumerate(graph.classes), (-1, "(unlabelled)")]:
        of_class = graph.labels == label
        if label < 0 and not of_class.any():
            continue
        counts = [int(np.sum(of_class & (graph.split == split))) for split in splits]
        table.add_row(Text(name), *(f"{count:,}" for count in [*counts, sum(counts)]))
    return table
