"""A model of a condensed graph on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from fedtag.common.models.parameters import fingerprint
from fedtag.deploy.terminal.console import results, say
from fedtag.runs.condensed_training import TrainedOn
from fedtag.server.state.progress import percentage


def show_trained(trained: TrainedOn, out: Path | None) -> None:
    """A few lines for a person: the graph, the model, its accuracies, where it lies."""
    console, about = results(), trained.release.about
    say(
        console,
        f"graph     {trained.release.digest[:12]}, taken after round {about.round}, ratio {about.config.ratio:g}",
    )
    say(console, f"model     {trained.config.model.backbone}, {fingerprint(trained.parameters)[:12]}")
    if trained.accuracies:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("scored")
        for heading in ("validation", "test"):
            table.add_column(heading, justify="right")
        for stage, scores in trained.accuracies.items():
            table.add_row(stage, *(percentage(scores[subset]) for subset in ("val", "test")))
        console.print(table)
    if out is not None:
        say(console, f"written   {out.absolute()}", "green")
