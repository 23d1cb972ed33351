"""The command that makes a data folder of files as people have them: import."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedtag.common.errors import ConfigError
from fedtag.common.settings.lists import listed
from fedtag.deploy.commands.options import Debug, given

COLUMNS = "Columns (found out and said where they are not given)"
EDGES = "Edges"
CLASSES = "Classes and splits"
FILES = "Files"


def import_tables(
    nodes: Annotated[
        str,
        typer.Argument(
            help="Table of nodes, FILE#TABLE of a workbook or database, a file of a graph, or an import.toml, which is "
            "done again.",
            show_default=False,
        ),
    ],
    edges: Annotated[str | None, typer.Argument(help="Table of edges.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The new folder. [default, with an import.toml: its own]", show_default=False),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the institution. [default: the folder's]")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Unique values.", rich_help_panel=COLUMNS)
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="One, or several as title,abstract: joined, each after its name.", rich_help_panel=COLUMNS
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Classes, or blank.", rich_help_panel=COLUMNS)] = None,
    split: Annotated[
        str | None, typer.Option(help="train, val, test, or blank.", rich_help_panel=COLUMNS)
    ] = None,
    src: Annotated[
        str | None, typer.Option(help="Of the edges: where from.", rich_help_panel=COLUMNS)
    ] = None,
    dst: Annotated[str | None, typer.Option(help="Of the edges: where to.", rich_help_panel=COLUMNS)] = None,
    weight: Annotated[
        str | None, typer.Option(help="Of the edges: numbers of at least 0.", rich_help_panel=COLUMNS)
    ] = None,
    edges_from: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Link nodes that share a value, as an author.", rich_help_panel=EDGES
        ),
    ] = None,
    edges_from_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Link nodes with those that it lists, as references.",
            rich_help_panel=EDGES,
        ),
    ] = None,
    edges_knn: Annotated[
        int | None,
        typer.Option(min=1, help="Link each node with so many of the nearest texts.", rich_help_panel=EDGES),
    ] = None,
    edges_cap: Annotated[
        int | None,
        typer.Option(
            min=2, help="Most links that one shared value gives a node. [default: 10]", rich_help_panel=EDGES
        ),
    ] = None,
    list_separator: Annotated[
        str | None,
        typer.Option(help="Between elements of a list. [default: found out]", rich_help_panel=EDGES),
    ] = None,
    directed: Annotated[
        bool, typer.Option("--directed", help="Follow edges one way only.", rich_help_panel=EDGES)
    ] = False,
    classes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The federation's classes in their order, one a line. [default: the labels that occur]",
            rich_help_panel=CLASSES,
        ),
    ] = None,
    renamed: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OLD=NEW", help="Rename a label.", rich_help_panel=CLASSES),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of a drawn split. [default: 0]", rich_help_panel=CLASSES)
    ] = None,
    write_split: Annotated[
        bool | None,
        typer.Option(
            "--write-split/--leave-split",
            help="Write a drawn split down, so that nodes keep theirs when the data grow; or let it be drawn anew "
            "whenever the folder is read. [default: write-split]",
            rich_help_panel=CLASSES,
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Of text files. [default: found out]", rich_help_panel=FILES)
    ] = None,
    separator: Annotated[
        str | None, typer.Option(help="Of delimited text. [default: found out]", rich_help_panel=FILES)
    ] = None,
    debug: Debug = False,
) -> None:
    """Make a data folder of tables: CSV, TSV, JSON, Parquet, Excel, SQLite, or files of graphs.

    Reads the files and writes a folder that `fedtag validate` accepts, whole or not at all, and in it import.toml,
    with which the same import is done again when the data have changed: nodes keep their ids and splits. Says
    what it read, guessed, made, repaired and dropped. Where two columns are about as likely it asks on a
    terminal, and refuses elsewhere.

    Example: `fedtag import papers.csv citations.csv --text title,abstract --label field --out papers`
    """
    from fedtag.deploy.terminal.display import display
    from fedtag.deploy.terminal.import_view import asked, show_import
    from fedtag.deploy.terminal.interruption import terminable
    from fedtag.graph.importing.importer import import_folder
    from fedtag.graph.importing.recipe import recipe_of
    from fedtag.graph.importing.vectors import text_vectors

    options: dict[str, Any] = given(
        {
            "edges": edges,
            "name": name,
            "id": id_column,
            "text": [one for item in text for one in listed(item, "text")] if text else None,
            "label": label,
            "split": split,
            "src": src,
            "dst": dst,
            "weight": weight,
            "edges_from": edges_from,
            "edges_from_column": edges_from_column,
            "edges_knn": edges_knn,
            "edges_cap": edges_cap,
            "list_separator": list_separator,
            "directed": directed or None,
            "map": _pairs(renamed) if renamed else None,
            "seed": seed,
            "write_split": write_split,
            "encoding": encoding,
            "separator": separator,
        }
    )
    recipe, place = recipe_of(nodes, options, classes)
    folder = out or place
    if folder is None:
        raise ConfigError("out= is missing: name the new folder")
    with terminable(), display(debug) as progress:
        made = import_folder(recipe, folder, place, asked, text_vectors(progress.work(folder.name)))
    show_import(made)


def _pairs(renamed: list[str]) -> dict[str, str]:
    """What `--map` renames, the last one first where a label is named twice."""
    pairs = [one.partition("=") for one in renamed]
    wrong = [old + mark for old, mark, _ in pairs if not mark or not old]
    if wrong:
        raise ConfigError(f"map={wrong[0]} renames nothing: write old=new")
    return {old: new for old, _, new in pairs}
