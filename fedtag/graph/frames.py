"""Nodes and edges as pandas tables, made what the contract of data folders asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedtag.client.data import checks
from fedtag.client.data.assembly import Parts, Reading, assembled
from fedtag.client.data.metadata import Metadata, are_names
from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.splitting import drawn_note
from fedtag.client.data.tables import Table, cleaned
from fedtag.client.data.text_graph import SPLIT_NAMES, TextGraph
from fedtag.client.data.values import Odd, column_of, written
from fedtag.common.wording.suggestion import did_you_mean
from fedtag.graph.importing.columns import ENOUGH, end_shares

NODES = "nodes"
EDGES = "edges"
FEATURES = "features"


@dataclass(frozen=True)
class NodeColumns:
    """Which column of the nodes is what; None where there is no such column."""

    id: str
    text: str | None
    label: str | None
    split: str | None


@dataclass(frozen=True)
class EdgeColumns:
    """Which column of the edges is what; ends that are None are found by their values."""

    src: str | None
    dst: str | None
    weight: str | None


def read_frames(
    nodes: pd.DataFrame,
    edges: pd.DataFrame,
    node_columns: NodeColumns,
    edge_columns: EdgeColumns,
    problems: Problems,
    *,
    features: Any,
    classes: Sequence[str] | None,
    directed: bool,
    name: str,
    seed: int,
) -> tuple[Reading | None, tuple[str, ...]]:
    """The graph of two tables, and sentences on what was done for their maker.

    Args:
        nodes, edges: the tables.
        node_columns, edge_columns: what their columns mean; without a split one is drawn.
        problems: receives every fault.
        features: an array [nodes, d], names of columns of the nodes, or None.
        classes: in their order; those that the labels name where None.
        directed: whether edges are followed in one direction only.
        name: of the graph.
        seed: of a drawn split.

    Returns:
        None in place of the graph where something is wrong.
    """
    node_table = _table(nodes, NODES, _named(node_columns), problems)
    if node_table is not None:
        absent = {name: pa.nulls(len(node_table), pa.large_string()) for name in ("text", "label")}
        node_table = replace(node_table, columns={**absent, **node_table.columns})
        if node_columns.text is None and features is None:
            problems.add(
                NODES, "there are neither texts nor features", "name a column with text=, or features="
            )
    ends = _ends(edges, edge_columns, node_table, problems)
    edge_table = None if ends is None else _table(edges, EDGES, ends, problems)
    named = tuple(map(written, classes)) if classes is not None else _classes(nodes, node_columns.label)
    if named and not are_names(list(named)):
        problems.add(NODES, f"classes is {shown(list(named))}", "give distinct names with classes=")
    if not isinstance(directed, bool):
        problems.add("directed", f"is {shown(directed)}", "give True or False")
    if not isinstance(name, str) or not name.strip():
        problems.add("name", f"is {shown(name)}", "give a text")
    parts = Parts(
        Metadata(name, named, directed),
        node_table,
        edge_table,
        None,
        _features(features, nodes, problems),
        FEATURES,
        seed,
    )
    reading = assembled(parts, problems, require_training=False)
    return reading, drawn_notes(reading, seed)


def drawn_notes(reading: Reading | None, seed: int = 0) -> tuple[str, ...]:
    """What is said of a split that was drawn; nothing of one that was given."""
    return (drawn_note(seed),) if reading is not None and reading.drawn else ()


def _is_frame(frame: object, name: str, problems: Problems) -> bool:
    """Whether something is a table, which is told where it is none."""
    if not isinstance(frame, pd.DataFrame):
        problems.add(name, f"is {shown(type(frame).__name__)}", "give a pandas DataFrame")
    return isinstance(frame, pd.DataFrame)


def _named(columns: NodeColumns) -> dict[str, str]:
    """Columns of a table by what the contract calls them."""
    given = {"node_id": columns.id, "text": columns.text, "label": columns.label, "split": columns.split}
    return {ours: theirs for ours, theirs in given.items() if theirs is not None}


def _table(frame: pd.DataFrame, name: str, columns: Mapping[str, str], problems: Problems) -> Table | None:
    """The named columns as a table; None where one is missing, which is told with the nearest names."""
    if not _is_frame(frame, name, problems):
        return None
    found = [str(column) for column in frame.columns]
    missing = [theirs for theirs in columns.values() if theirs not in found]
    for theirs in missing:
        problems.add(name, f"column {theirs} is missing", did_you_mean(theirs, found))
    twice = sorted({theirs for theirs in columns.values() if found.count(theirs) > 1})
    if twice:
        problems.add(name, f"column {', '.join(twice)} appears more than once", "keep one")
    if missing or twice:
        return None
    made = {
        ours: _column(frame.iloc[:, found.index(theirs)], name, theirs, problems)
        for ours, theirs in columns.items()
    }
    arrays = {ours: column for ours, (column, _) in made.items()}
    odd = {ours: rows for ours, (_, rows) in made.items() if rows}
    table = Table(name, arrays, np.arange(1, len(frame) + 1), typed=True, odd=odd)
    return cleaned(table, tuple(columns), problems)


def _column(values: pd.Series[Any], table: str, name: str, problems: Problems) -> tuple[pa.Array, Odd]:
    """Values as an array, and the rows that hold neither number nor text."""
    try:
        if values.dtype == object:
            return column_of([None if _is_missing(value) else value for value in values.tolist()])
        return pa.array(values, from_pandas=True), {}
    except UnicodeEncodeError:
        bad = np.array([isinstance(value, str) and not _is_unicode(value) for value in values])
        rows = np.flatnonzero(bad) + 1
        problems.add_rows(table, f"{name} is not valid Unicode", rows, "decode it anew, as UTF-8")
        return _column(values.mask(bad), table, name, problems)
    except (pa.ArrowException, OverflowError):
        return column_of([None if _is_missing(value) else value for value in values.tolist()])


def _is_missing(value: object) -> bool:
    """Whether there is no value; a list or array is one."""
    missing = pd.isna(value)
    return isinstance(missing, bool) and missing


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ends(
    edges: pd.DataFrame, columns: EdgeColumns, nodes: Table | None, problems: Problems
) -> dict[str, str] | None:
    """The columns of the edges by what the contract calls them; None where the ends cannot be told."""
    if not _is_frame(edges, EDGES, problems):
        return None
    weight = {} if columns.weight is None else {"weight": columns.weight}
    if columns.src is not None and columns.dst is not None:
        return {"src": columns.src, "dst": columns.dst, **weight}
    if columns.src is not None or columns.dst is not None:
        problems.add(EDGES, "one end is named and the other is not", "give both src= and dst=, or neither")
        return None
    if nodes is None:
        # Without ids nothing can be told; what is wrong with the nodes has been said.
        return None
    ids = checks.identifiers(nodes, "node_id", Problems())
    named = {str(column): str(column) for column in edges.columns if column != columns.weight}
    table = _table(edges, EDGES, named, Problems())
    if table is None:
        problems.add(EDGES, "two columns have one name", "keep one")
        return None
    shares = end_shares(table, named, ids)
    ends = [column for column, share in shares.items() if share > ENOUGH]
    if len(ends) != 2:
        there = ", ".join(ends) or "none"
        problems.add(
            EDGES,
            f"the ends of an edge are the two columns whose values are node ids, and these are {there} "
            f"(of {', '.join(shares) or 'none'})",
            "name them with src= and dst=",
        )
        return None
    return {"src": ends[0], "dst": ends[1], **weight}


def _classes(nodes: pd.DataFrame, label: str | None) -> tuple[str, ...]:
    """The labels that occur: in the order of categories, of numbers, or of the alphabet."""
    if label is None or label not in nodes:
        return ()
    column = nodes[label]
    if isinstance(column.dtype, pd.CategoricalDtype):
        return tuple(written(value) for value in column.cat.categories)
    # As numbers of Python, whatever their width, since values are written as these are.
    values = [value for value in column.dropna().unique().tolist() if written(value)]
    numbers = all(isinstance(value, int | float) for value in values)
    ordered = sorted(values) if numbers else sorted(map(written, values))
    return tuple(dict.fromkeys(map(written, ordered)))


def _features(features: Any, nodes: pd.DataFrame, problems: Problems) -> Any:
    """Features as an array; of columns of the nodes where they are named."""
    if features is None or isinstance(features, np.ndarray):
        return features
    if hasattr(features, "detach"):
        return features.detach().cpu().numpy()
    if hasattr(features, "toarray"):
        return features.toarray()
    names = [features] if isinstance(features, str) else list(features)
    of_columns = not isinstance(features, pd.DataFrame) and all(isinstance(name, str) for name in names)
    missing = [name for name in names if of_columns and name not in nodes]
    if missing:
        named = ", ".join(missing[:5])
        problems.add(NODES, f"column {named} is missing", "name columns of the nodes with features=")
        return None
    try:
        return np.asarray(nodes[names] if of_columns else features, np.float32)
    except (TypeError, ValueError) as error:
        problems.add(
            FEATURES, f"are no numbers of one shape ({shown(str(error))})", "give an array [nodes, d]"
        )
        return None


def node_frame(graph: TextGraph) -> pd.DataFrame:
    """A row a node: id, text, label, split."""
    labels = np.array([*graph.classes, None], dtype=object)[graph.labels]
    splits = np.array([None, *SPLIT_NAMES[1:]], dtype=object)[graph.split]
    return pd.DataFrame({"id": graph.node_ids, "text": graph.texts, "label": labels, "split": splits})


def edge_frame(graph: TextGraph) -> pd.DataFrame:
    """A row an edge: src, dst, weight."""
    ids = pd.Series(graph.node_ids)
    ends = {name: ids.take(graph.edges[:, place]).to_numpy() for place, name in enumerate(("src", "dst"))}
    return pd.DataFrame({**ends, "weight": graph.edge_weights})
