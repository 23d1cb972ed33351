"""From files to a data folder: what is read, what it means, which edges follow, and the folder that holds it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedtag.client.data import checks
from fedtag.client.data.assembly import FOLDER_FEATURES, Parts, Reading, assembled
from fedtag.client.data.metadata import Metadata, are_names, look_alike
from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.tables import Table
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.data.values import normal
from fedtag.client.data.writing import META, leftovers, replaced_folder, write_graph
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural
from fedtag.graph.importing.account import DROPPED, LEFT, MADE, READ, Account, listed, raise_any
from fedtag.graph.importing.array_file import array_reading, holds_arrays
from fedtag.graph.importing.columns import Candidate, Choose
from fedtag.graph.importing.edges import Vectors, edge_table, near_edges, together
from fedtag.graph.importing.files import Place, tables_of
from fedtag.graph.importing.nodes import node_table, text_blocks, with_labels, with_links, with_split
from fedtag.graph.importing.recipe import RECIPE, Recipe
from fedtag.graph.importing.repetition import former_split, tell_changed, tell_drawn
from fedtag.graph.importing.resolution import resolved, with_ends, with_lists
from fedtag.graph.importing.source import Source

EDGE_TABLES = ("edges", "links", "citations", "references")
"""What a file with several tables calls its edges."""
WRITTEN = {"nodes.parquet", "edges.parquet", META, FOLDER_FEATURES, RECIPE}
"""The files of a folder that an import wrote."""


@dataclass(frozen=True)
class Imported:
    """A folder that an import wrote.

    Args:
        folder: where it is.
        graph: what it holds, without texts.
        account: what was read, guessed, made, repaired and dropped.
    """

    folder: Path
    graph: TextGraph
    account: Account


def nobody(role: str, candidates: Sequence[Candidate]) -> None:
    """Asks nobody."""


def import_folder(
    recipe: Recipe,
    out: Path,
    former: Path | None = None,
    choose: Choose = nobody,
    vectors: Vectors | None = None,
) -> Imported:
    """Reads tables and writes them as a data folder, with the recipe that repeats it.

    Args:
        recipe: what is read, and what is known of it.
        out: the folder, written whole or not at all; one that is there must be of an import.
        former: the folder that the same recipe wrote, if it is followed again; its nodes keep their drawn splits,
            wherever the new folder is. What lies at `out` decides nothing.
        choose: asks a person where two columns are about as likely.
        vectors: of texts, where edges follow from them.

    Raises:
        DataError: something is wrong with the files, or what is meant cannot be told.
        ConfigError: the recipe is at fault.
    """
    account = Account()
    _check_place(recipe, out)
    path = Place.of(recipe.nodes).path
    before = {} if former is None else former_split(former)
    given = before if recipe.write_split and not recipe.split else {}
    if holds_arrays(path):
        recipe = recipe.but(classes=_agreed(recipe))
        reading = array_reading(path, recipe, recipe.name or out.resolve().name, given, account)
        tell_drawn(reading, recipe, given, account)
        tell_changed(reading.graph, before, account)
        with replaced_folder(out) as staging:
            write_graph(reading.graph, staging, with_split=recipe.write_split or not reading.drawn)
            recipe.but(classes=list(reading.graph.classes)).write(staging, out)
        return _imported(out, reading, reading.graph.texts.count(""), account)
    with tempfile.TemporaryDirectory(prefix="fedtag-") as made:
        nodes, edges = _opened(recipe, Path(made), choose, account)
        recipe = resolved(recipe, nodes, edges, choose, account)
        recipe, reading, with_drawn = _read(recipe, nodes, edges, out, given, choose, vectors, account)
        with replaced_folder(out) as staging:
            empty = _Counted(text_blocks(nodes, recipe.text))
            write_graph(reading.graph, staging, empty, with_split=with_drawn)
            empty.check(nodes.file, reading.graph.num_nodes)
            recipe.write(staging, out)
    tell_changed(reading.graph, before, account)
    return _imported(out, reading, empty.empty, account)


def _check_place(recipe: Recipe, out: Path) -> None:
    """Raise `DataError` where writing the folder would remove what was not imported."""
    sources = [Place.of(one).path.resolve() for one in (recipe.nodes, recipe.edges) if one]
    inside = [one for one in sources if out.resolve() in one.parents]
    if inside:
        raise DataError(
            f"{inside[0].name} lies in {out}, which would be replaced; choose another place for the folder."
        )
    if out.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise DataError(f"{out} is the folder in which you are, or around it; choose another place.")
    if not out.exists():
        return
    there = {path.name for path in out.iterdir()} if out.is_dir() else {""}
    if there and RECIPE not in there:
        raise DataError(f"{out} is there, and no import wrote it; choose another place for the folder.")
    if others := sorted(there - WRITTEN):
        raise DataError(
            f"{out} holds {', '.join(others)}, which no import wrote; move it elsewhere, or choose another place."
        )


def _opened(recipe: Recipe, scratch: Path, choose: Choose, account: Account) -> tuple[Source, Source | None]:
    """The table of nodes and that of edges, if there is one: of a file of its own, or beside the nodes."""
    place = Place.of(recipe.nodes)
    tables = tables_of(place.path, scratch, recipe.encoding, recipe.separator)
    beside = [one for one in tables if one.name.lower() in EDGE_TABLES]
    nodes = _chosen("nodes", [one for one in tables if one not in beside] or tables, place, choose)
    edges = beside[0] if beside and beside[0] is not nodes and not place.table else None
    if recipe.edges:
        place = Place.of(recipe.edges)
        edges = _chosen(
            "edges", tables_of(place.path, scratch, recipe.encoding, recipe.separator), place, choose
        )
    for one in (nodes, edges):
        if one is not None:
            account.tell(READ, f"{one.file}: {one.form}; columns {listed(one.columns)}")
    return nodes, edges


def _chosen(role: str, tables: Sequence[Source], place: Place, choose: Choose) -> Source:
    """The one table of a file, or that which was named."""
    by_name = {one.name: one for one in tables}
    if place.table and place.table in by_name:
        return by_name[place.table]
    names = ", ".join(by_name)
    if place.table:
        raise DataError(f"{place.path.name}: there is no table {place.table}; use one of {names}.")
    if len(tables) == 1:
        return tables[0]
    if role in by_name:
        return by_name[role]
    candidates = [Candidate(name, 1.0, plural(len(one.columns), "column")) for name, one in by_name.items()]
    if (chosen := choose(role, candidates)) is None:
        raise DataError(
            f"{place.path.name} holds the tables {names}; name that of the {role}, as in "
            f"{place.path.name}#{tables[0].name}."
        )
    return by_name[chosen]


def _read(
    recipe: Recipe,
    nodes: Source,
    edges: Source | None,
    out: Path,
    given: Mapping[str, int],
    choose: Choose,
    vectors: Vectors | None,
    account: Account,
) -> tuple[Recipe, Reading, bool]:
    """The whole recipe, the graph without texts, and whether its split is written."""
    problems = Problems()
    called = {
        "node_id": recipe.id,
        "label": recipe.label,
        "split": recipe.split,
        "src": recipe.src,
        "dst": recipe.dst,
    }
    table = node_table(nodes, recipe, account)
    ids = checks.identifiers(table, "node_id", problems)
    checks.report_repeated(table, "node_id", ids, problems)
    raise_any(problems, called, nodes, edges)
    account.tell(READ, f"{nodes.file}: {plural(len(table), 'node')}")
    table, classes = with_labels(table, recipe, _agreed(recipe), account)
    table = with_split(table, account)
    recipe, links = _linked(recipe, nodes, edges, table, ids, choose, vectors, account)
    columns = {
        name: column for name, column in table.columns.items() if name in ("node_id", "label", "split")
    }
    labelled = "label" in columns and bool(classes)
    blank = pa.nulls(len(table), pa.large_string())
    kept = Table(table.file, {**columns, "text": blank}, table.records, table.typed)
    directed = recipe.directed or bool(nodes.directed)
    meta = Metadata(recipe.name or out.resolve().name, classes, directed)
    parts = Parts(meta, kept, links, split_seed=recipe.seed, split_given=given)
    reading = assembled(parts, problems, require_training=False, to_predict=not labelled)
    raise_any(problems, called, nodes, edges)
    assert reading is not None
    tell_drawn(reading, recipe, given, account)
    if not labelled:
        account.tell(MADE, "no column is a label: the folder can be predicted for, not trained on")
    return recipe.but(classes=list(classes)), reading, recipe.write_split or not reading.drawn


def _agreed(recipe: Recipe) -> list[str]:
    """The classes of the federation; none where those that occur are the classes.

    Raises:
        DataError: two of them are one.
    """
    if recipe.classes and not are_names(recipe.classes):
        raise DataError(f"classes is {shown(recipe.classes)}; give distinct names.")
    if alike := look_alike(recipe.classes):
        raise DataError(
            f"two classes differ in their Unicode normal form only: {alike[0]!a}, {alike[1]!a}; keep one."
        )
    return [normal(one) for one in recipe.classes]


def _linked(
    recipe: Recipe,
    nodes: Source,
    edges: Source | None,
    table: Table,
    ids: pa.Array,
    choose: Choose,
    vectors: Vectors | None,
    account: Account,
) -> tuple[Recipe, Table]:
    """The recipe with what edges follow from, and all edges."""
    if edges is not None:
        recipe = with_ends(recipe, edges, ids, choose, account)
    elif not (recipe.edges_from or recipe.edges_from_column or recipe.edges_knn):
        # It is found once the ids are known.
        recipe = with_lists(recipe, nodes, ids, account)
        table = with_links(table, nodes, recipe.edges_from_column)
    links = edge_table(edges, table, ids, recipe, account)
    if recipe.edges_knn:
        assert vectors is not None
        texts = [text for block in text_blocks(nodes, recipe.text) for text in block.to_pylist()]
        near = near_edges(texts, ids, recipe, vectors, account)
        links = together([one for one in (links, near) if len(one)] or [near])
    return recipe, links


class _Counted(Iterator[pa.Array]):
    """Blocks of texts, counted as they pass."""

    def __init__(self, blocks: Iterator[pa.Array]) -> None:
        self._blocks, self.rows, self.empty = blocks, 0, 0

    def __next__(self) -> pa.Array:
        block = next(self._blocks)
        self.rows += len(block)
        self.empty += len(block) - int(np.count_nonzero(pc.binary_length(block)))
        return block

    def check(self, file: str, nodes: int) -> None:
        """Raise `DataError` where there are not as many texts as nodes."""
        if self.rows != nodes:
            raise DataError(
                f"{file}: it changed while it was read ({nodes} rows, then {self.rows}); import it again."
            )


def _imported(out: Path, reading: Reading, empty: int, account: Account) -> Imported:
    repairs = reading.repairs
    counted = (
        (DROPPED, repairs.self_loops, "edge", "from a node to itself"),
        (DROPPED, repairs.duplicate_edges, "repeated edge", ""),
        (READ, empty, "node", "without a text"),
        (LEFT, repairs.isolated_nodes, "node", "without an edge"),
    )
    for kind, count, word, what in counted:
        if count:
            account.tell(kind, f"{plural(count, word)} {what}".rstrip())
    for path in leftovers(out):
        account.tell(
            READ, f"not {path}, which an import that was stopped left: remove it, unless one is at work"
        )
    return Imported(out, reading.graph, account)
