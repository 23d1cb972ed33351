"""A site of any size with evidence that verifies: features, edges, texts and selections are drawn, column by column."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from fedtag.client.evidence.columns import ChunkColumns, NeighbourColumns, packs_from_arrays
from fedtag.client.evidence.store import write_packs

CLASSES = tuple(f"class {number}" for number in range(7))
LINKS = 2
"""Edges for each node."""
NEAR = 3
"""Most neighbours at hop 1 that a pack selects; at hop 2 it has one."""
QUOTED = 80  # characters of a span


def write_site(folder: Path, count: int, letters: int = 1000, seed: int = 0) -> Path:
    """Write folder and evidence of a site.

    Args:
        folder: a new one.
        count: nodes.
        letters: characters of each text, more than `QUOTED`.
        seed: of all draws.

    Returns:
        The folder.
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    ids, texts = [f"paper-{number}" for number in range(count)], drawn_texts(count, letters, rng)
    label = rng.integers(0, len(CLASSES), count)
    pairs = np.sort(rng.integers(0, count, (LINKS * count, 2)), 1)
    edges = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
    names = np.array(CLASSES)[label]
    nodes = {"node_id": ids, "text": texts, "label": names, "split": rng.choice(["train", "test"], count)}
    parquet.write_table(pa.table(nodes), folder / "nodes.parquet")
    ends = {"src": np.array(ids)[edges[:, 0]], "dst": np.array(ids)[edges[:, 1]]}
    parquet.write_table(pa.table(ends), folder / "edges.parquet")
    (folder / "meta.json").write_text(json.dumps({"name": folder.name, "classes": CLASSES}))
    selected = _selected(count, edges)
    quoting, spans = selected.row[selected.hop < 2], selected.node[selected.hop < 2]
    start = rng.integers(0, letters - QUOTED, len(spans))
    packs = packs_from_arrays(
        np.arange(count),
        np.where(rng.random(count) < 0.8, label, rng.integers(0, len(CLASSES), count)),
        rng.random(count),
        selected,
        ChunkColumns(quoting, spans, start, start + QUOTED, 1 / np.bincount(quoting)[quoting]),
        node_ids=ids,
        texts=texts,
        classes=CLASSES,
        kind="scored",
        round_number=1,
        model="f" * 64,
        label=label,
        evidence_share=rng.random(count),
    )
    write_packs(folder / "evidence", 1, packs, durable=False)
    return folder


def drawn_texts(count: int, letters: int, rng: np.random.Generator) -> list[str]:
    """Pieces of one long row of drawn words."""
    words = np.array(["".join(rng.choice(list("etaoinshrdlu"), 2 + place % 9)) for place in range(8000)])
    row = " ".join(words[(rng.pareto(1.0, 400_000) * 20).astype(int) % len(words)])
    return [row[start : start + letters] for start in rng.integers(0, len(row) - letters, count).tolist()]


def _selected(count: int, edges: NDArray[np.int64]) -> NeighbourColumns:
    """Each node, its first neighbours, and a neighbour of its first one that is none of its own."""
    both = np.concatenate([edges, edges[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    begins = np.searchsorted(both[:, 0], np.arange(count + 1))
    place = np.arange(len(both)) - begins[both[:, 0]]
    near = both[place < NEAR]
    linked = np.flatnonzero(np.diff(begins))
    first = both[begins[linked], 1]
    # The last neighbour of the first neighbour, where that is neither the node nor adjacent to it.
    far = np.stack([linked, both[begins[first + 1] - 1, 1]], 1)
    keys = both[:, 0] * count + both[:, 1]
    far = far[(far[:, 0] != far[:, 1]) & ~np.isin(far[:, 0] * count + far[:, 1], keys)]
    own = np.arange(count)
    row = np.concatenate([own, near[:, 0], far[:, 0]])
    weight = np.concatenate([np.ones(count), 1 / np.bincount(near[:, 0])[near[:, 0]], np.ones(len(far))])
    hop = np.repeat([0, 1, 2], [count, len(near), len(far)])
    return NeighbourColumns(row, np.concatenate([own, near[:, 1], far[:, 1]]), hop, weight)
