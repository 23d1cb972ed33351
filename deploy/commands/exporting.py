"""The command that takes a condensed graph out of a run: export."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Debug


class Texts(StrEnum):
    """What a condensed node's text is: selected chunks word for word, or the language model's summary of them."""

    CHUNKS = "chunks"
    SUMMARIES = "summaries"


def export(
    path: Annotated[Path, typer.Argument(help="A run directory, or a site's folder.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
    client: Annotated[str | None, typer.Option(help="Which client of a run.")] = None,
    texts: Annotated[Texts, typer.Option(help="Chunks word for word, or summaries of them.")] = Texts.CHUNKS,
    round_number: Annotated[
        int | None, typer.Option("--round", help="Of the core. [default: the last that is kept]")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with nodes and edges, if the evidence lies elsewhere.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Write the condensed graph of a site as a data folder.

    Reads the core that a site kept in one of its last rounds, and the site's nodes; writes a new folder that
    `fedtag validate` accepts and any method trains on: the core's nodes with their condensed texts, its links
    with their weights, and the labels of training nodes. The folder quotes texts: it stays inside the
    institution.

    Example: `fedtag export runs/first --client client-00 --out condensed`
    """
    from fedtag.common.wording.counts import plural
    from fedtag.deploy.terminal.console import results, say
    from fedtag.deploy.terminal.display import display
    from fedtag.runs.export import export as write

    with display(debug) as progress:
        graph = write(path, client, out, round_number, texts is Texts.SUMMARIES, data, progress)
    say(
        results(),
        f"condensed graph  {out}: {plural(graph.num_nodes, 'node')}, {plural(len(graph.edges), 'edge')}, "
        f"{int((graph.labels >= 0).sum())} labelled",
    )
