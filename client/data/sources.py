"""What `--data` may name: a folder, a feature graph, the built-in graph, or a public set."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedtag.client.data.assembly import Reading
from fedtag.client.data.folder import read_folder
from fedtag.client.data.problems import Problems
from fedtag.client.data.pydocs import BRIEF, PYDOCS, is_pydocs, packages_of, read_pydocs
from fedtag.client.data.reading.arrays import MASKS, array_graph, read_arrays
from fedtag.client.data.splitting import drawn_split
from fedtag.client.data.text_graph import NONE, TextGraph
from fedtag.common.config.places import SEPARATOR
from fedtag.common.errors import DataError
from fedtag.common.homes import cache_folder
from fedtag.common.wording.suggestion import did_you_mean

PLANETOID = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
PUBLIC = (*PLANETOID, "wikics", "arxiv", "products", "computers", "photo", "cs", "physics")
NAMES = ("x", "y", "edge_index", *(name for name, _ in MASKS))


def load_source(spec: str, cache: str | Path | None = None, require_training: bool = False) -> Reading:
    """Reads one graph; where it comes without a split the usual one is drawn.

    Args:
        spec: a data folder; a feature graph .npz; pydocs or pydocs:PACKAGE,PACKAGE, or the same with pydocs-brief;
            or a public set: cora, citeseer, pubmed, wikics, arxiv, products, computers, photo, cs, physics.
        cache: where public sets are kept; FEDTAG_CACHE or ~/.cache/fedtag by default.
        require_training: whether a folder without a labelled training node is at fault.

    Raises:
        DataError: if it is none of these, or breaks the contract.
    """
    if is_pydocs(spec):
        return Reading(read_pydocs(packages_of(spec), brief=spec.startswith(BRIEF)).graph)
    path = Path(spec)
    if path.is_dir():
        return read_folder(path, require_training)
    if path.suffix == ".npz":
        return read_feature_graph(path)
    if spec.lower() in PUBLIC:
        return _public_set(spec.lower(), Path(cache) if cache else cache_folder())
    if path.is_file():
        raise DataError(
            f"data is {spec!r}, a file, and a graph is a data folder or a feature graph .npz: make a folder of a table "
            f"(csv, tsv, JSON lines, Parquet, xlsx, SQLite, GraphML, …) by `fedtag import {spec} --out FOLDER`; in "
            "Python Graph.from_pandas, from_networkx and from_pyg take what is in memory"
        )
    raise DataError(
        f"data is {spec!r}, which is neither a folder nor a file here; give a data folder, a feature graph .npz, "
        f"{BRIEF}, {PYDOCS}, or a public set: {did_you_mean(spec, (BRIEF, PYDOCS, *PUBLIC))}"
    )


def source_of(path: str | Path) -> str:
    """A path as a source that holds from any folder; empty where it cannot be one of several."""
    place = str(Path(path).absolute())
    return "" if SEPARATOR in place else place


def read_feature_graph(path: str | Path) -> Reading:
    """Reads a graph of features without texts, as `read_arrays` describes it; without masks a split is drawn.

    Raises:
        DataError: something is wrong with it.
    """
    problems = Problems()
    reading = inspected_arrays(path, problems)
    problems.raise_any()
    assert reading is not None
    return reading


def inspected_arrays(path: str | Path, problems: Problems) -> Reading | None:
    """The same; what is wrong is added to `problems`, and None says that there is no graph then."""
    graph = read_arrays(Path(path), problems)
    return None if graph is None else with_split(graph)


def with_split(graph: TextGraph) -> Reading:
    """A graph of arrays; one in which no node is in a split gets the usual one."""
    if (graph.split != NONE).any() or not (graph.labels >= 0).any():
        return Reading(graph)
    return Reading(replace(graph, split=drawn_split(graph.node_ids, graph.labels), split_drawn=True))


def _public_set(name: str, cache: Path) -> Reading:
    """Downloads a public set through PyG (or finds it in the cache); features, no texts."""
    try:
        # What PyG deprecates within itself does not concern the reader of a graph.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = _pyg_data(name, str(cache / name))
    except ImportError as error:
        raise DataError(f"The public set {name!r} needs the package {error.name!r}; install it.") from error
    except Exception as error:
        # A download and what PyG does with it fail in many ways; the reader can do one thing about all.
        raise DataError(
            f"The public set {name!r} cannot be loaded here ({type(error).__name__}); use a machine with a "
            "network, or give a data folder or pydocs-brief."
        ) from error
    arrays = {key: value.numpy() for key in NAMES if (value := getattr(data, key, None)) is not None}
    problems = Problems()
    graph = array_graph(name, name, arrays, problems)
    problems.raise_any()
    assert graph is not None
    return with_split(graph)


def _pyg_data(name: str, root: str) -> Any:
    from torch_geometric import datasets

    if name in PLANETOID:
        return datasets.Planetoid(root, PLANETOID[name])[0]
    if name == "wikics":
        return datasets.WikiCS(root, is_undirected=True)[0]
    if name in ("computers", "photo"):
        return datasets.Amazon(root, name)[0]
    if name in ("cs", "physics"):
        return datasets.Coauthor(root, name)[0]
    from ogb.nodeproppred import PygNodePropPredDataset

    published = PygNodePropPredDataset(f"ogbn-{name}", root)
    data = published[0]
    data.y = data.y.reshape(-1)
    for part, rows in published.get_idx_split().items():
        mask = data.y.new_zeros(data.num_nodes).bool()
        mask[rows] = True
        data["val_mask" if part == "valid" else f"{part}_mask"] = mask
    return data
