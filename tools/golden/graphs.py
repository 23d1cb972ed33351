"""The tiny graphs of all cases: three institutions' folders of nodes with features, from a seed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

SIZES = (30, 45, 60)
CLASSES = "abc"
SPLITS = np.array(["train", "train", "train", "val", "test"])
STRIDE = 1000
"""The ids of a site's nodes begin at its number times this."""


def write_graphs(folder: Path, seed: int = 0) -> tuple[Path, ...]:
    """Write one folder a site under `folder`, with edges inside and between the sites; the folders.

    Features and edges tell three classes apart; both ends of an edge between two sites know it.
    """
    generator = np.random.default_rng(seed)
    nodes = [site * STRIDE + np.arange(size) for site, size in enumerate(SIZES)]
    places = tuple(folder / f"site-{site}" for site in range(len(SIZES)))
    cross: list[list[tuple[int, int, str]]] = [[] for _ in SIZES]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        pairs = zip(
            generator.choice(nodes[one], 30).tolist(),
            generator.choice(nodes[other], 30).tolist(),
            strict=True,
        )
        for left, right in sorted(set(pairs)):
            cross[one].append((left, right, places[other].name))
            cross[other].append((right, left, places[one].name))
    for place, ids, left in zip(places, nodes, cross, strict=True):
        _write_site(place, ids, left, generator)
    return places


def _write_site(
    place: Path, ids: np.ndarray, cross: list[tuple[int, int, str]], generator: np.random.Generator
) -> None:
    count = len(ids)
    labels = np.arange(count) % len(CLASSES)
    pairs = generator.integers(0, count, (4 * count, 2))
    alike = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) | (generator.random(len(pairs)) < 0.1)
    pairs = np.unique(np.sort(pairs[alike & (pairs[:, 0] != pairs[:, 1])], axis=1), axis=0)
    features = generator.standard_normal((count, 6)).astype(np.float32)
    features[np.arange(count), labels] += 1
    splits = SPLITS[(np.arange(count) // len(CLASSES)) % len(SPLITS)]
    place.mkdir(parents=True)
    rows = [
        f"{node},text of node {node},{CLASSES[label]},{split}"
        for node, label, split in zip(ids, labels, splits, strict=True)
    ]
    _write_table(place / "nodes.csv", "node_id,text,label,split", rows)
    _write_table(place / "edges.csv", "src,dst", [f"{ids[one]},{ids[other]}" for one, other in pairs])
    _write_table(place / "cross_edges.csv", "src,dst,peer", [",".join(map(str, edge)) for edge in cross])
    (place / "meta.json").write_text(
        json.dumps({"name": place.name, "classes": list(CLASSES)}), encoding="utf-8"
    )
    np.save(place / "features.npy", features)


def _write_table(file: Path, head: str, rows: list[str]) -> None:
    file.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
