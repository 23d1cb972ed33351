"""The command that uses a released model: predict."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Cache, Debug, Device


def predict(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_DIR",
            help="A run directory, or a folder with its model.safetensors and model.json.",
            show_default=False,
        ),
    ],
    folder: Annotated[
        Path,
        typer.Argument(help="Nodes and edges; labels, splits and classes may be absent.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="The Parquet file; its folder is made where missing.")] = Path(
        "predictions.parquet"
    ),
    cache: Cache = None,
    device: Device = "auto",
    evidence: Annotated[
        bool,
        typer.Option("--evidence/--no-evidence", help="Quote the texts that each prediction rests on."),
    ] = True,
    name: Annotated[
        str | None,
        typer.Option(
            help="The site's name in the run, by which large neighbourhoods are sampled. [default: the folder's]"
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(
            help="The site's workspace in the run (RUN_DIR/sites/SITE of a simulation), with what it kept to itself "
            "there and predicts by: features that others added to, an architecture of its own. [default: without]"
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Predict the class of every node of a folder, with evidence.

    Reads the released model and the folder, whose nodes need not have been in any training; writes one Parquet
    file and, in the cache, encoded texts; nothing in the folder. A row a node: node_id, prediction, confidence,
    the probability of each class (`p:CLASS`), the scoring path that validation chose, label and split as in the
    folder, evidence (spans with offsets, weight, text and the SHA-256 of the whole text), neighbours. The file
    quotes texts: it stays inside the institution. Evidence comes with methods that select texts; a run
    without a released model has nothing to predict with.

    Example: `fedtag predict runs/first /data/hospital-a --out predictions.parquet`
    """
    from fedtag.deploy.terminal.display import display
    from fedtag.deploy.terminal.prediction_table import show_predictions
    from fedtag.runs import prediction

    with display(debug) as progress:
        predicted = prediction.predict(run, folder, cache, device, evidence, name, workspace, out, progress)
    show_predictions(predicted, out)
