"""Reading an institution's folder: everything that is wrong with it, or the graph that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedtag.client.data.assembly import FOLDER_FEATURES, NODE_COLUMNS, Parts, Reading, assembled
from fedtag.client.data.metadata import META_FILES, read_metadata
from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.reading.files import read_table, table_files
from fedtag.client.data.reading.forms import COPY_AGAIN, CUT_OFF, THROUGH_IMPORT, form_of, is_named_rightly

EDGE_COLUMNS = ("src", "dst", "weight")
CROSS_COLUMNS = ("src", "dst", "peer", "weight")


def read_folder(
    path: str | Path, require_training: bool = True, classes: Sequence[str] | None = None
) -> Reading:
    """Reads a folder of nodes, edges and metadata.

    Args:
        path: the folder.
        require_training: whether a folder without a labelled training node is at fault. An institution
            wants to know; a simulated client may well have none.
        classes: those of a model that is to predict. The folder may then lack labels and classes of its own,
            but not have other classes.

    Raises:
        DataError: with every problem found, one sentence per kind, with row numbers and the remedy.
    """
    problems = Problems()
    reading = inspected_folder(path, problems, require_training, classes)
    problems.raise_any()
    assert reading is not None
    return reading


def inspected_folder(
    path: str | Path,
    problems: Problems,
    require_training: bool = True,
    classes: Sequence[str] | None = None,
) -> Reading | None:
    """The same; what is wrong is added to `problems`, and None says that there is no graph then."""
    folder = Path(path)
    if not folder.is_dir():
        problems.add(str(folder), "is not a folder", "give one with nodes, edges and meta.json")
        return None
    meta_file = _only(folder, META_FILES, problems)
    nodes_file = _only(folder, table_files("nodes"), problems)
    edges_file = _only(folder, table_files("edges"), problems)
    cross_file = _only(folder, table_files("cross_edges"), problems, required=False)
    features_file = _only(folder, (FOLDER_FEATURES,), problems, required=False)
    parts = Parts(
        meta=read_metadata(meta_file, problems, classes) if meta_file else None,
        nodes=read_table(nodes_file, NODE_COLUMNS, problems) if nodes_file else None,
        edges=read_table(edges_file, EDGE_COLUMNS, problems) if edges_file else None,
        cross=read_table(cross_file, CROSS_COLUMNS, problems) if cross_file else None,
        features=_array(features_file, problems) if features_file else None,
    )
    return assembled(parts, problems, require_training, to_predict=classes is not None)


def _only(folder: Path, names: Sequence[str], problems: Problems, required: bool = True) -> Path | None:
    """The one file of several names, which is missing or not alone otherwise."""
    found = [folder / name for name in names if (folder / name).is_file()]
    if len(found) > 1:
        problems.add(
            folder.name, f"{' and '.join(file.name for file in found)} are both there", "keep one of them"
        )
    if found:
        return found[0]
    # A file that is there in another form was meant, and is not passed over.
    stems = {name.partition(".")[0] for name in names}
    others = sorted(
        file for file in folder.iterdir() if file.name.lower().partition(".")[0] in stems and file.is_file()
    )
    for other in others:
        problems.add(folder.name, f"{other.name} is not read", _remedy(other, names))
    if required and not others:
        problems.add(folder.name, f"there is no {' or '.join(names)}", "add one")
    return None


def _remedy(other: Path, names: Sequence[str]) -> str:
    """What to do with a file that is not called as one that is read."""
    if names == (FOLDER_FEATURES,):
        return f"save one float32 array as {FOLDER_FEATURES} with numpy.save"
    if names == META_FILES:
        return f"write {' or '.join(names)}"
    form = form_of(other)
    packed = f"it {form.what}: {form.remedy}; read are " if form is not None else "write "
    lines = ", one object a line in .jsonl" if other.suffix.lower() == ".json" else ""
    return f"{packed}{' or '.join(names)}{lines}" + ("" if form is not None else f", or {THROUGH_IMPORT}")


def _array(path: Path, problems: Problems) -> Any:
    """What an .npy file holds; None where none can be read."""
    try:
        if not is_named_rightly(path, problems):
            return None
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError) as error:
        if form_of(path) is not None:
            problems.add(path.name, CUT_OFF, COPY_AGAIN)
        else:
            what = f"is not a readable array ({shown(str(error))})"
            problems.add(path.name, what, "save float32 with numpy.save")
        return None
