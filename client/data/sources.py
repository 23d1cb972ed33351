"""What `--data` may name: a folder, a feature graph, the built-in graph, or a public set."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from fedtag.client.data.folder import read_folder
from fedtag.client.data.pydocs import PYDOCS, read_pydocs
from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL, TextGraph, canonical_edges
from fedtag.common.config.places import SEPARATOR
from fedtag.common.errors import DataError

PLANETOID = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
PUBLIC = (*PLANETOID, "wikics", "arxiv", "products", "computers", "photo", "cs", "physics")
MASKS = (("train_mask", TRAIN), ("val_mask", VAL), ("test_mask", TEST))


def load_source(spec: str, cache: str | Path | None = None) -> TextGraph:
    """Loads one graph.

    Args:
        spec: a data folder; a feature graph .npz; pydocs or pydocs:PACKAGE,PACKAGE; or a public set:
            cora, citeseer, pubmed, wikics, arxiv, products, computers, photo, cs, physics.
        cache: where public sets are kept; ~/.cache/fedtag by default.

    Raises:
        DataError: if it is none of these, or breaks the contract.
    """
    if spec.partition(":")[0] == PYDOCS:
        packages = [name.strip() for name in spec.partition(":")[2].split(",") if name.strip()]
        return read_pydocs(packages or ["scipy"]).graph
    path = Path(spec)
    if path.is_dir():
        return read_folder(path, require_training=False).graph
    if path.suffix == ".npz":
        return read_feature_graph(path)
    if spec.lower() in PUBLIC:
        return _public_set(spec.lower(), Path(cache) if cache else Path.home() / ".cache" / "fedtag")
    raise DataError(
        f"data is {spec!r}, which is neither a folder nor a file here; give a data folder, a feature graph .npz, "
        f"pydocs, or a public set ({', '.join(PUBLIC)})."
    )


def source_of(path: str | Path) -> str:
    """A path as a source that holds from any folder; empty where it cannot be one of several."""
    place = str(Path(path).absolute())
    return "" if SEPARATOR in place else place


def read_feature_graph(path: str | Path) -> TextGraph:
    """Reads a graph of features without texts.

    The .npz holds x as CSR (x_data, x_indices, x_indptr, x_shape), y (-1 = unlabelled), edge_index
    [2, E] with each undirected edge once, and optionally train_mask, val_mask, test_mask. Classes are
    named by their numbers.
    """
    file = Path(path)
    try:
        with np.load(file, allow_pickle=False) as arrays:
            content = {name: arrays[name] for name in arrays.files}
        x = csr_array(
            (content["x_data"], content["x_indices"], content["x_indptr"]), shape=tuple(content["x_shape"])
        )
        x.check_format()
        masks = {name: content[name] for name, _ in MASKS if name in content}
        return _feature_graph(file.stem, x.toarray(), content["y"], content["edge_index"].T, masks)
    except FileNotFoundError as error:
        raise DataError(f"There is no file {file}; check the path.") from error
    except (KeyError, ValueError, IndexError, TypeError, OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{file.name} is not a feature graph ({error}); it must hold x_data, x_indices, x_indptr, x_shape, "
            "y and edge_index."
        ) from error


def _feature_graph(
    name: str,
    x: NDArray[Any],
    y: NDArray[Any],
    pairs: NDArray[Any],
    masks: dict[str, NDArray[Any]],
) -> TextGraph:
    n = len(y)
    features = np.ascontiguousarray(x, dtype=np.float32)
    labels = np.where(np.asarray(y) >= 0, y, -1).astype(np.int64)
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    if len(features) != n or not np.isfinite(features).all():
        raise ValueError(f"x must hold {n} rows of finite numbers")
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= n):
        raise ValueError(f"edge_index must hold rows from 0 to {n - 1}")
    split = np.full(n, NONE, np.int8)
    for mask, value in MASKS:
        if mask in masks:
            split[np.asarray(masks[mask], bool) & (labels >= 0)] = value
    edges, weights, _, _ = canonical_edges(pairs, np.ones(len(pairs), np.float32), directed=False)
    return TextGraph(
        name=name,
        node_ids=tuple(range(n)),
        texts=("",) * n,
        labels=labels,
        split=split,
        edges=edges,
        edge_weights=weights,
        classes=tuple(str(label) for label in range(int(labels.max()) + 1)),
        features=features,
    )


def _public_set(name: str, cache: Path) -> TextGraph:
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
            "network, or give a data folder or pydocs."
        ) from error
    masks = {}
    for mask, _ in MASKS:
        value = getattr(data, mask, None)
        if value is not None:
            masks[mask] = first_mask(value)
    return _feature_graph(name, data.x.numpy(), data.y.reshape(-1).numpy(), data.edge_index.T.numpy(), masks)


def first_mask(mask: Tensor) -> NDArray[Any]:
    """A published split; sets with several hold one column for each, and the first is the usual one."""
    return np.asarray((mask[:, 0] if mask.dim() == 2 else mask).detach().cpu().numpy())


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
