"""Feature graphs in .npz: every array is checked by its name before it is used."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.reading.forms import ARCHIVE, COPY_AGAIN, CUT_OFF, form_of
from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL, TextGraph, canonical_edges
from fedtag.common.wording.counts import plural

MASKS = (("train_mask", TRAIN), ("val_mask", VAL), ("test_mask", TEST))
LARGEST_FEATURE = 1e6
"""Beyond this, products of a few layers leave the float32 numbers."""
MOST_BYTES = 2**36
"""Of unpacked arrays: more is no graph that a machine would hold."""
SPARSE = ("data", "indices", "indptr", "shape")

Arrays = Mapping[str, NDArray[Any]]


def read_arrays(path: Path, problems: Problems) -> TextGraph | None:
    """The graph of an .npz file; None where something is wrong, which is told by file and array.

    It holds features `x` (dense, or CSR as x_data, x_indices, x_indptr, x_shape), classes `y` (-1: unlabelled) and
    `edge_index` [2, E] with each edge once, and may hold train_mask, val_mask, test_mask: true and false, or numbers of
    nodes. In files of the Planetoid and Amazon kind these are called attr_data, ..., labels, and adj_data, ... .
    """
    name = path.name
    try:
        form = form_of(path)
        if form is not None and form is not ARCHIVE:
            problems.add(name, form.what, form.remedy)
            return None
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
                problems.add(name, f"unpacks to more than {MOST_BYTES:,} bytes", "check where it comes from")
                return None
        with np.load(path, allow_pickle=False) as content:
            arrays = {key: content[key] for key in content.files}
    except FileNotFoundError:
        problems.add(name, f"there is no file {path}", "check the path")
        return None
    except zipfile.BadZipFile:
        if form is ARCHIVE:
            problems.add(name, CUT_OFF, COPY_AGAIN)
        else:
            problems.add(name, "is not a feature graph", "write arrays with numpy.savez")
        return None
    except (ValueError, EOFError, OSError, MemoryError) as error:
        problems.add(
            name, f"has an array that cannot be read ({shown(str(error))})", "write numbers with numpy.savez"
        )
        return None
    return array_graph(name, path.stem, arrays, problems)


def array_graph(file: str, name: str, arrays: Arrays, problems: Problems) -> TextGraph | None:
    """The graph of arrays as `read_arrays` describes them.

    Args:
        file: what a person knows them by.
        name: of the graph.
        arrays: by name.
        problems: receives every fault.
    """
    told = len(problems.found)
    x = _features(file, arrays, problems)
    labels = None if x is None else labels_of(file, arrays, len(x), problems)
    pairs = None if x is None else pairs_of(file, arrays, len(x), problems)
    if x is None or labels is None or pairs is None:
        return None
    split = split_of(file, arrays, labels, problems)
    if len(problems.found) > told:
        return None
    edges, weights, _, _ = canonical_edges(pairs, np.ones(len(pairs), np.float32), directed=False)
    return TextGraph(
        name=name,
        node_ids=tuple(range(len(x))),
        texts=("",) * len(x),
        labels=labels,
        split=split,
        edges=edges,
        edge_weights=weights,
        classes=tuple(str(label) for label in range(int(labels.max(initial=0)) + 1)),
        features=x,
    )


def first_mask(mask: NDArray[Any]) -> NDArray[Any]:
    """A published split; sets with several hold one column for each, and the first is the usual one."""
    return mask[:, 0] if mask.ndim == 2 else mask


def _matrix(file: str, arrays: Arrays, names: Sequence[str], problems: Problems) -> Any:
    """A dense or CSR matrix under the first of several names; None where there is none, or a broken one."""
    for name in names:
        parts = {part: f"{name}_{part}" for part in SPARSE}
        if name in arrays:
            return name, arrays[name]
        if parts["data"] not in arrays:
            continue
        missing = [key for key in parts.values() if key not in arrays]
        if missing:
            problems.add(
                file, f"{', '.join(missing)} is missing", "a matrix in CSR is data, indices, indptr, shape"
            )
            return None
        data, indices, ends, shape = (arrays[key] for key in parts.values())
        try:
            matrix = csr_array((data, indices, ends), shape=tuple(int(size) for size in shape.reshape(-1)))
            matrix.check_format()
        except (ValueError, TypeError, OverflowError) as error:
            what = f"{', '.join(parts.values())} are no matrix in CSR ({shown(str(error))})"
            problems.add(file, what, "write what scipy.sparse.csr_array holds")
            return None
        return name, matrix
    return None


def _features(file: str, arrays: Arrays, problems: Problems) -> NDArray[np.float32] | None:
    told = len(problems.found)
    found = _matrix(file, arrays, ("x", "attr_matrix", "attr", "features"), problems)
    if found is None:
        if len(problems.found) == told:
            there = ", ".join(sorted(arrays)) or "nothing"
            remedy = "add x, dense [nodes, d] or as CSR: x_data, x_indices, x_indptr, x_shape"
            problems.add(file, f"holds no features x (found: {there})", remedy)
        return None
    name, matrix = found
    values = matrix.data if hasattr(matrix, "indptr") else matrix
    if matrix.ndim != 2 or matrix.shape[1] == 0 or values.dtype.kind not in "fiub":
        what = f"{name} is {_kind(matrix)}, and must be numbers of the shape [nodes, d], d >= 1"
        problems.add(file, what, "write a row of features a node")
        return None
    if matrix.shape[0] * matrix.shape[1] * 4 > MOST_BYTES:
        problems.add(
            file, f"{name} has the shape {list(matrix.shape)}, too large to hold", "use fewer features"
        )
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.ascontiguousarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float32)
        bad = np.argwhere(~(np.abs(x) <= LARGEST_FEATURE))
    if len(bad):
        row, column = bad[0]
        what = f"{name} holds {x[row, column]:g} at node {row}" + _more(len(bad))
        problems.add(file, what, f"scale or replace features: finite numbers up to ±{LARGEST_FEATURE:g}")
        return None
    return x


def labels_of(file: str, arrays: Arrays, nodes: int, problems: Problems) -> NDArray[np.int64] | None:
    """Class of each node by `y`, -1 where it has none; None where something is wrong, which is told."""
    name = next((one for one in ("y", "labels") if one in arrays), None)
    if name is None:
        problems.add(file, "y is missing", "add one class a node, -1 where it has none")
        return None
    y = arrays[name]
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (nodes,) or y.dtype.kind not in "fiub":
        what = f"{name} is {_kind(arrays[name])}, and must be whole numbers of the shape [{nodes}]"
        problems.add(file, what, "give one class a node of x, -1 where it has none")
        return None
    missing = np.isnan(y) if y.dtype.kind == "f" else np.zeros(nodes, bool)
    labels = _whole(file, name, np.where(missing, -1, y), "node", problems)
    if labels is None:
        return None
    labels = np.where(labels >= 0, labels, -1)
    occurring = np.unique(labels[labels >= 0])
    # Classes are numbered; a number far beyond how many occur, or can, is something else, as an id.
    most = max(2 * len(occurring) + 8, 64)
    if len(occurring) and (occurring[-1] >= most or occurring[-1] >= max(nodes, 2)):
        node = int(np.flatnonzero(labels == occurring[-1])[0])
        what = f"{name} is {occurring[-1]} at node {node}, where {len(occurring)} classes occur"
        problems.add(file, what, "number classes from 0 without gaps, -1 for nodes without a label")
        return None
    return labels


def pairs_of(file: str, arrays: Arrays, nodes: int, problems: Problems) -> NDArray[np.int64] | None:
    """Rows of the ends of each edge, [E, 2]; None where something is wrong, which is told."""
    name = next((one for one in ("edge_index", "edges") if one in arrays), None)
    if name is None:
        told = len(problems.found)
        found = _matrix(file, arrays, ("adj_matrix", "adj"), problems)
        if found is None:
            if len(problems.found) == told:
                problems.add(file, "edge_index is missing", "add the pairs of nodes, [2, E]")
            return None
        name, matrix = found
        if matrix.shape != (nodes, nodes):
            problems.add(
                file, f"{name} is {_kind(matrix)}, and must be [{nodes}, {nodes}]", "give a row a node of x"
            )
            return None
        return np.argwhere(matrix != 0) if isinstance(matrix, np.ndarray) else np.stack(matrix.nonzero(), 1)
    index = arrays[name]
    if index.ndim != 2 or 2 not in index.shape or index.dtype.kind not in "fiu":
        if index.size == 0:
            return np.zeros((0, 2), np.int64)
        problems.add(
            file, f"{name} is {_kind(index)}, and must be whole numbers of the shape [2, E]", "write two rows"
        )
        return None
    # With two columns and another number of rows there is one reading only.
    pairs = _whole(file, name, index.T if index.shape[0] == 2 else index, "edge", problems)
    if pairs is None:
        return None
    outside = np.flatnonzero(((pairs < 0) | (pairs >= nodes)).any(axis=1))
    if len(outside):
        values = pairs[outside[0]]
        value = values[(values < 0) | (values >= nodes)][0]
        what = f"{name} holds {value} at edge {outside[0]}" + _more(len(outside))
        problems.add(file, what, f"give rows of x, from 0 to {nodes - 1}")
        return None
    return pairs


def split_of(file: str, arrays: Arrays, labels: NDArray[np.int64], problems: Problems) -> NDArray[np.int8]:
    """The splits of labelled nodes; those without a label are in none."""
    nodes = len(labels)
    split = np.full(nodes, NONE, np.int8)
    given = {name: arrays[name] for name, _ in MASKS if name in arrays}
    masks = {name: _mask(file, name, given[name], nodes, problems) for name in given}
    for name, value in MASKS:
        mask = masks.get(name)
        if mask is None:
            continue
        for other, held in masks.items():
            if other == name:
                break
            if held is not None and (both := int((mask & held).sum())):
                problems.add(
                    file, f"{other} and {name} share {plural(both, 'node')}", "put each node into one of them"
                )
        split[mask & (labels >= 0)] = value
    return split


def _mask(
    file: str, name: str, mask: NDArray[Any], nodes: int, problems: Problems
) -> NDArray[np.bool_] | None:
    first = first_mask(mask)
    if first.shape == (nodes,) and (first.dtype == bool or np.isin(first, (0, 1)).all()):
        return first.astype(bool)
    numbers = first.ndim == 1 and first.dtype.kind in "iu" and len(np.unique(first)) == len(first)
    if numbers and (first >= 0).all() and (first < nodes).all():
        members = np.zeros(nodes, bool)
        members[first] = True
        return members
    what = f"{name} is {_kind(mask)}, and must be {nodes} times true or false, or numbers of nodes, each once"
    problems.add(file, what, "give one value a node of x")
    return None


def _whole(
    file: str, name: str, values: NDArray[Any], place: str, problems: Problems
) -> NDArray[np.int64] | None:
    """Values as int64; None where one is no whole number of that range, which is told with its place."""
    at_fault = np.zeros(values.shape, bool)
    if values.dtype.kind == "f":
        at_fault = ~((np.abs(values) < 2**53) & (values == np.floor(values)))
    elif values.dtype == np.uint64:
        at_fault = values >= 2**63
    bad = np.argwhere(at_fault)
    if len(bad):
        what = f"{name} holds {values[tuple(bad[0])]:g} at {place} {bad[0][0]}" + _more(len(bad))
        problems.add(file, what, "give whole numbers (integers)")
        return None
    return values.astype(np.int64)


def _kind(array: Any) -> str:
    return f"{list(array.shape)} of {array.dtype}"


def _more(count: int) -> str:
    return f", and {count - 1} more" if count > 1 else ""
