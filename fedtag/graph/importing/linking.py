"""Edges of tables that have none: nodes that share a value, lists of other nodes, nearest texts."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from fedtag.client.data import checks
from fedtag.client.data.tables import Table
from fedtag.client.data.values import normal, whole_numbers, written

SEPARATORS = (";", "|", "\n", "\t", ",", " ")
"""What may stand between the elements of a list in a text, the likeliest first."""
CERTAIN = 2
"""So many of these stand in nothing but lists."""

Pairs = NDArray[np.int64]


def elements(column: pa.Array, separator: str, ids: pa.Array | None = None) -> tuple[list[list[str]], str]:
    """The elements of a column of lists, and what stands between them.

    Args:
        column: lists, texts of JSON or Python that are lists, or texts with separators.
        separator: found out where empty: the first that occurs of those that stand in nothing but lists; where
            elements are ids, that by which most are.
        ids: of the nodes, where elements are ids.

    Returns:
        lists of texts, and the separator; empty where values are lists or hold one element each.
    """
    values = column.to_pylist()
    listed = [_listed(value) for value in values]
    texts = [
        "" if one is not None or value is None else written(value)
        for one, value in zip(listed, values, strict=True)
    ]
    separator = separator or _separator(texts, ids)

    def parts(text: str) -> list[str]:
        pieces = text.split(separator) if separator else [text]
        return [piece.strip() for piece in pieces if piece.strip()]

    found = [parts(text) if one is None else one for one, text in zip(listed, texts, strict=True)]
    return found, separator if any(separator in text for text in texts if separator) else ""


def reference_pairs(lists: Sequence[Sequence[str]], ids: pa.Array) -> tuple[Pairs, list[str]]:
    """Pairs of rows, from each node to those that its list names, and what is named and no node."""
    rows = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
    references = pa.array([element for one in lists for element in one], pa.large_string())
    targets = _positions(ids, references)
    known = targets >= 0
    unknown = [element for element, found in zip(references.to_pylist(), known, strict=True) if not found]
    return np.stack([rows[known], targets[known]], axis=1), unknown


def shared_pairs(
    lists: Sequence[Sequence[str]], ids: pa.Array, cap: int
) -> tuple[Pairs, NDArray[np.float32], int]:
    """Pairs of nodes that share an element, each weighed by how many they share.

    Those that share one stand in a circle, in the order of their ids; each is linked with those around it, up to `cap`,
    at least 2, which are all of them where no more share it.

    Returns:
        pairs of rows, weights, and how many elements more than `cap` + 1 nodes share.
    """
    order = np.argsort(np.array([normal(str(one)) for one in ids.to_pylist()], dtype=object), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    rows = np.repeat(np.arange(len(lists)), [len(set(one)) for one in lists])
    names = [normal(element) for one in lists for element in dict.fromkeys(one)]
    _, values = np.unique(np.array(names, dtype=object), return_inverse=True) if names else (None, rows)
    sorting = np.lexsort((place[rows], values))
    rows, values = rows[sorting], values[sorting]
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]]) if len(values) else np.zeros(0, np.int64)
    sizes = np.diff(np.r_[starts, len(values)])
    start, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    position = np.arange(len(rows)) - start
    reach = np.where(size <= cap + 1, size // 2, cap // 2)
    pairs = []
    for step in range(1, int(reach.max(initial=1)) + 1):
        # Across a circle of even size both ends name the same pair.
        near = (step <= reach) & ((2 * step < size) | (position < step))
        pairs.append(np.stack([rows[near], rows[(start + (position + step) % size)[near]]], axis=1))
    every = np.sort(np.concatenate(pairs), axis=1)
    unique, counts = np.unique(every, axis=0, return_counts=True)
    return unique, counts.astype(np.float32), int((sizes > cap + 1).sum())


def nearest_pairs(vectors: NDArray[np.float32], filled: NDArray[np.bool_], neighbours: int) -> Pairs:
    """Pairs of each node with the nodes whose texts are nearest, by the angle between their vectors.

    Args:
        vectors: one a node, [nodes, d].
        filled: whether a node has a text; one without is linked with none.
        neighbours: of each node.
    """
    rows = np.flatnonzero(filled)
    count = min(neighbours, len(rows) - 1)
    if count < 1:
        return np.zeros((0, 2), np.int64)
    search = NearestNeighbors(n_neighbors=count, metric="cosine", algorithm="brute").fit(vectors[rows])
    near = search.kneighbors(return_distance=False)
    return np.stack([np.repeat(rows, count), rows[near.reshape(-1)]], axis=1)


def _listed(value: object) -> list[str] | None:
    """A value that is a list, also where it is written as one; None where it is none."""
    if isinstance(value, list):
        return [written(one) for one in value if one is not None]
    if not isinstance(value, str) or not (value.startswith("[") and value.endswith("]")):
        return None
    for reader in (json.loads, ast.literal_eval):
        try:
            made = reader(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(made, list):
            return [written(one) for one in made if one is not None]
    return None


def _separator(texts: Sequence[str], ids: pa.Array | None) -> str:
    there = [one for one in SEPARATORS if any(one in text for text in texts)]
    if ids is None:
        return next((one for one in there if one in SEPARATORS[:CERTAIN]), "")

    def known(separator: str) -> int:
        pieces = [piece.strip() for text in texts for piece in text.split(separator) if piece.strip()]
        return int((_positions(ids, pa.array(pieces, pa.large_string())) >= 0).sum()) if pieces else 0

    return max(there, key=known, default="")


def _positions(ids: pa.Array, references: pa.Array) -> NDArray[np.int64]:
    """Row of each id that a list names; whole numbers as they are read elsewhere, where all are some."""
    whole = whole_numbers(references)
    return checks.positions(ids, references if whole is None else whole)


def linked(file: str, pairs: Pairs, weights: NDArray[np.float32] | None, ids: pa.Array) -> Table:
    """Pairs of rows as a table of edges."""
    ends = {name: ids.take(pa.array(pairs[:, place])) for place, name in enumerate(("src", "dst"))}
    weight = {} if weights is None else {"weight": pa.array(weights.astype(np.float64))}
    return Table(file, {**ends, **weight}, np.arange(1, len(pairs) + 1), typed=True)
