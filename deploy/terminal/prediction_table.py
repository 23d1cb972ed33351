"""What was predicted for a folder, on the terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from fedtag.client.data.text_graph import SPLIT_NAMES
from fedtag.common.wording.counts import plural
from fedtag.deploy.terminal.console import results, say
from fedtag.runs.prediction import Predicted
from fedtag.server.state.progress import percentage


def show_predictions(predicted: Predicted, out: Path) -> None:
    """A few lines for a person: the model, predicted classes, accuracy where there are labels, the file."""
    console = results()
    card, data = predicted.release.card, predicted.data
    method = predicted.release.config.method
    say(
        console,
        f"model        {method}, round {card.round}, {card.fingerprint[:12]}, path {predicted.scoring}",
    )
    say(console, f"nodes        {data.num_nodes:,}, edges {len(data.edges):,}")
    console.print(class_counts(predicted))
    if scores := accuracies(predicted):
        say(console, f"accuracy     {scores}")
    if predicted.prediction.packs is not None:
        say(console, "evidence     with quotations: the file stays inside the institution")
    say(console, f"predictions  {out.absolute()}", "green")


def class_counts(predicted: Predicted) -> Table:
    """Nodes predicted and, where there are labels, labelled as each class."""
    data, count = predicted.data, len(predicted.data.classes)
    labelled = bool((data.labels >= 0).any())
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("class")
    for heading in ("predicted", *(["labelled"] if labelled else [])):
        table.add_column(heading, justify="right")
    columns = [np.bincount(predicted.classes, minlength=count)]
    if labelled:
        columns.append(np.bincount(data.labels[data.labels >= 0], minlength=count))
    for place, name in enumerate(data.classes):
        table.add_row(Text(name), *(f"{column[place]:,}" for column in columns))
    return table


def accuracies(predicted: Predicted) -> str:
    """Share of right predictions among the labelled nodes of each split, in words; empty without labels."""
    data = predicted.data
    right = predicted.classes == data.labels
    parts = []
    for code, split in [(3, SPLIT_NAMES[3]), (2, SPLIT_NAMES[2]), (1, SPLIT_NAMES[1]), (0, "other")]:
        chosen = (data.split == code) & (data.labels >= 0)
        if chosen.any():
            parts.append(
                f"{percentage(float(right[chosen].mean()))} of {plural(int(chosen.sum()), f'{split} node')}"
            )
    return ", ".join(parts)
