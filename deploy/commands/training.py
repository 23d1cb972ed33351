"""The command that trains on a released condensed graph: train-on."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Cache, Debug, Device


def train_on(
    condensed: Annotated[
        Path,
        typer.Argument(
            metavar="CONDENSED",
            help="A condensed.safetensors, or a run directory that holds one.",
            show_default=False,
        ),
    ],
    backbone: Annotated[str, typer.Option(help="Family of the model; `fedtag methods` lists all.")] = "gcn",
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of nodes and edges to fit the model to, and to score it on."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="New folder for the model, as `fedtag predict` reads it.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of initial values and dropout.", min=0)] = 0,
    cache: Cache = None,
    device: Device = "auto",
    debug: Debug = False,
) -> None:
    """Train a model on the condensed graph that a federation released.

    Reads the graph and, with --data, a folder that need not have been in any training: the model is scored there as
    it is and, if there are training nodes, after some steps on them, of which validation nodes choose the best. Its
    test nodes are scored alone. Writes the model of the graph with --out, and nothing in the folder; `fedtag predict`
    then takes the same steps.

    Example: `fedtag train-on runs/first/condensed.safetensors --backbone sage --data /data/hospital-a`
    """
    from fedtag.deploy.terminal.display import display
    from fedtag.deploy.terminal.training_table import show_trained
    from fedtag.runs import condensed_training

    with display(debug) as progress:
        trained = condensed_training.train_on(condensed, backbone, data, seed, device, cache, out, progress)
    show_trained(trained, out)
