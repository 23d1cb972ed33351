"""Edges of a graph: of their own table, and such as follow from the nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedtag.client.data import checks
from fedtag.client.data.problems import Problems
from fedtag.client.data.tables import Table, concatenated
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural
from fedtag.graph.importing.account import DROPPED, LEFT, MADE, READ, Account, examples, raise_any
from fedtag.graph.importing.linking import (
    Pairs,
    elements,
    linked,
    nearest_pairs,
    reference_pairs,
    shared_pairs,
)
from fedtag.graph.importing.nodes import LINKS
from fedtag.graph.importing.recipe import Recipe
from fedtag.graph.importing.source import Source

Vectors = Callable[[Sequence[str]], NDArray[np.float32]]
"""One vector a text, [texts, d]."""
COMMA = ","
SEPARATED = {"\n": "line ends", "\t": "tabs", " ": "spaces", "": "nothing"}


def edge_table(source: Source | None, nodes: Table, ids: pa.Array, recipe: Recipe, account: Account) -> Table:
    """The edges of a table and of lists in the nodes' one, as src, dst and, where some have one, weight.

    Raises:
        DataError: a column cannot be read, or no edge has both ends among the nodes.
    """
    tables = [] if source is None else [_stated(source, ids, recipe, account)]
    if recipe.edges_from:
        tables.append(_shared(nodes, ids, recipe, account))
    if recipe.edges_from_column:
        tables.append(_referred(nodes, ids, recipe, account))
    return together(tables)


def near_edges(
    texts: Sequence[str], ids: pa.Array, recipe: Recipe, vectors: Vectors, account: Account
) -> Table:
    """Edges between nodes whose texts are nearest."""
    filled = np.array([bool(text) for text in texts], bool)
    pairs = nearest_pairs(vectors(texts), filled, recipe.edges_knn)
    account.tell(MADE, f"{plural(len(pairs), 'edge')} from each text to the {recipe.edges_knn} nearest")
    return linked("the nearest texts", pairs, None, ids)


def together(tables: Sequence[Table]) -> Table:
    """Edges of several origins; where some have weights, the others weigh 1."""
    if len(tables) == 1:
        return tables[0]
    weighed = any("weight" in table.columns for table in tables)
    filled = [
        replace(table, columns={**table.columns, "weight": pa.array(np.ones(len(table)))})
        if weighed and "weight" not in table.columns
        else table
        for table in tables
    ]
    joined = concatenated(filled[0].file if filled else "edges", filled)
    return joined if filled else replace(joined, columns={"src": pa.nulls(0), "dst": pa.nulls(0)})


def _stated(source: Source, ids: pa.Array, recipe: Recipe, account: Account) -> Table:
    """Edges that a table states, without those that lead out of the graph."""
    given = {"src": recipe.src, "dst": recipe.dst, "weight": recipe.weight}
    columns = {ours: theirs for ours, theirs in given.items() if theirs}
    problems = Problems()
    table = source.table(list(columns.values()), problems)
    raise_any(problems, columns, source)
    table = table.renamed(columns)
    if not len(table):
        return table
    ends = {name: checks.identifiers(table, name, problems) for name in ("src", "dst")}
    missing = [one for one in problems.found if one.what.endswith("is empty")]
    problems.found = [one for one in problems.found if one not in missing]
    raise_any(problems, columns, source)
    found = {name: checks.positions(ids, end) >= 0 for name, end in ends.items()}
    kept = found["src"] & found["dst"]
    account.tell(READ, f"{source.file}: {plural(len(table), 'edge')}")
    if not kept.any():
        there, named = ids[0].as_py(), ends["src"].drop_null()
        example = f"{named[0].as_py()!r}" if len(named) else "empty"
        raise DataError(
            f"{source.file}: no edge has both ends among the nodes (an end is {example}, an id {there!r}); name the "
            "columns with src=, dst= and id=."
        )
    if not kept.all():
        lost = [
            value
            for name, end in ends.items()
            for value in pc.filter(end, pa.array(~found[name])).drop_null().to_pylist()
        ]
        account.tell(
            DROPPED, f"{plural(int((~kept).sum()), 'edge')} to what is no node: {examples(lost) or 'no id'}"
        )
    arrays = {name: column.filter(pa.array(kept)) for name, column in table.columns.items()}
    return replace(table, columns=arrays, records=table.records[kept], odd={})


def _shared(nodes: Table, ids: pa.Array, recipe: Recipe, account: Account) -> Table:
    lists, separator = elements(nodes.columns[LINKS], recipe.list_separator)
    pairs, weights, large = shared_pairs(lists, ids, recipe.edges_cap)
    how = f", lists of which are separated by {_called(separator)}" if separator else ""
    made = plural(len(pairs), "edge")
    account.tell(MADE, f"{made} between nodes that share a value of {recipe.edges_from}{how}")
    if not (separator or recipe.list_separator):
        _tell_unlinked(nodes, ids, recipe, pairs, account)
    if large:
        account.tell(
            MADE,
            f"{plural(large, 'value')} of more than {recipe.edges_cap + 1} nodes link each with "
            f"{recipe.edges_cap // 2 * 2} of them",
        )
    return linked(nodes.file, pairs, weights, ids)


def _tell_unlinked(nodes: Table, ids: pa.Array, recipe: Recipe, pairs: Pairs, account: Account) -> None:
    """What would link most nodes, where values that were taken whole link few.

    Commas stand in lists and in names alike (Curie, Marie), so that only a person can tell which it is.
    """
    split, found = elements(nodes.columns[LINKS], COMMA)
    whole, parts = (len(np.unique(some)) for some in (pairs, shared_pairs(split, ids, recipe.edges_cap)[0]))
    if found and 2 * whole < len(ids) < 2 * parts:
        account.tell(
            LEFT,
            f"most nodes without an edge, as values of {recipe.edges_from} were taken whole: divided at commas they "
            f"link {parts:,} of {plural(len(ids), 'node')} in place of {whole:,}; if they are lists and no names such "
            "as 'Curie, Marie', give list_separator=','",
        )


def _referred(nodes: Table, ids: pa.Array, recipe: Recipe, account: Account) -> Table:
    lists, _ = elements(nodes.columns[LINKS], recipe.list_separator, ids)
    pairs, unknown = reference_pairs(lists, ids)
    account.tell(MADE, f"{plural(len(pairs), 'edge')} to nodes that {recipe.edges_from_column} lists")
    if unknown:
        verb = "that is" if len(unknown) == 1 else "that are"
        account.tell(
            DROPPED,
            f"{plural(len(unknown), 'element')} of {recipe.edges_from_column} {verb} no node: {examples(unknown)}",
        )
    return linked(nodes.file, pairs, None, ids)


def _called(separator: str) -> str:
    return SEPARATED.get(separator, separator)
