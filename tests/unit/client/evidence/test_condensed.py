"""The condensed graph: its links normalise to the core's matrix, and no label but training labels is in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL, TextGraph
from fedtag.client.data.writing import write_folder
from fedtag.client.evidence.condensed import chunk_texts, condensed_graph, links_file, read_links, write_links
from fedtag.client.evidence.packs import EvidencePack, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.evidence.store import available_rounds
from fedtag.common.errors import RunError
from fedtag.common.graph import Adjacency, normalised_adjacency

SITE = TextGraph(
    name="site",
    node_ids=("a", "b", "c", "d", "e"),
    texts=("First text. More.", "Second text.", "Third.", "", "Fifth text."),
    labels=np.array([0, 1, 0, 1, -1]),
    split=np.array([TRAIN, TRAIN, VAL, TEST, NONE], np.int8),
    edges=np.array([[0, 1], [1, 2]]),
    edge_weights=np.ones(2, np.float32),
    classes=("Rules", "Theory"),
)


def pack(node: str, *spans: tuple[str, int, int]) -> EvidencePack:
    texts = dict(zip(SITE.node_ids, SITE.texts, strict=True))
    chunks = tuple(SelectedChunk(of, *span, 0.5, text_digest(texts[of])) for of, *span in spans)
    near = tuple(SelectedNeighbour(of, int(of != node), 1.0) for of in {of: 0 for of, *_ in spans})
    return EvidencePack(node, "core", 4, "m", "Rules", 0.9, near, chunks, label="Rules")


def matrix(nodes: int, links: list[tuple[int, int, float]]) -> Adjacency:
    pairs = {(min(a, b) % nodes, max(a, b) % nodes): w for a, b, w in links if a % nodes != b % nodes}
    pairs = {(min(p), max(p)): w for p, w in pairs.items()}
    both = [(a, b, w) for (a, b), w in pairs.items()] + [(b, a, w) for (a, b), w in pairs.items()]
    edges = torch.tensor([[a for a, _, _ in both], [b for _, b, _ in both]], dtype=torch.int64)
    return normalised_adjacency(edges, nodes, torch.tensor([w for _, _, w in both], dtype=torch.float32))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0.01, 1)), max_size=6))
def test_whoever_normalises_it_anew_has_the_cores_matrix(links: list[tuple[int, int, float]]) -> None:
    packs = [pack("c"), pack("a"), pack("e"), pack("b")]
    wanted = matrix(4, links)
    graph = condensed_graph(SITE, packs, wanted, ["x"] * 4)
    found = graph.to_graph(torch.zeros(4, 1)).adjacency()
    assert torch.equal(found.edge_index, wanted.edge_index)
    torch.testing.assert_close(found.weight, wanted.weight, atol=1e-6, rtol=1e-5)


def test_nodes_come_in_order_with_training_labels_only() -> None:
    packs = [pack("c"), pack("b", ("a", 0, 11), ("b", 0, 6)), pack("d"), pack("a"), pack("e")]
    texts = chunk_texts(packs, SITE)
    assert texts == ("", "First text.\n\nSecond", "", "", "")
    graph = condensed_graph(SITE, packs, matrix(5, []), texts)
    assert graph.node_ids == ("c", "b", "d", "a", "e")
    assert graph.labels.tolist() == [-1, 1, -1, 0, -1]
    assert graph.split.tolist() == [NONE, TRAIN, NONE, TRAIN, NONE]
    assert (graph.name, graph.texts, len(graph.edges)) == ("site-core-4", texts, 0)


def test_it_is_read_back_as_it_was(tmp_path: Path) -> None:
    packs = [pack("a", ("a", 0, 11)), pack("b", ("b", 0, 6)), pack("c", ("a", 0, 5))]
    graph = condensed_graph(SITE, packs, matrix(3, [(0, 1, 0.5), (1, 2, 1.0)]), chunk_texts(packs, SITE))
    assert read_folder(write_folder(graph, tmp_path / "core")).graph == graph


def test_links_are_kept_beside_the_packs(tmp_path: Path) -> None:
    wanted = matrix(4, [(0, 1, 0.5), (2, 3, 0.25)])
    write_links(tmp_path, 12, wanted)
    found = read_links(tmp_path, 12, 4)
    assert torch.equal(found.edge_index, wanted.edge_index)
    assert torch.equal(found.weight, wanted.weight)
    assert available_rounds(tmp_path) == ()


def test_links_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"links\.safetensors cannot be read"):
        read_links(tmp_path, 3, 4)
    links_file(tmp_path, 3).write_bytes(b"no tensors")
    with pytest.raises(RunError, match=r"links\.safetensors cannot be read"):
        read_links(tmp_path, 3, 4)
    write_links(tmp_path, 3, matrix(4, []))
    with pytest.raises(RunError, match="more than the 3 nodes of its round"):
        read_links(tmp_path, 3, 3)


def test_a_core_of_another_folder_is_refused() -> None:
    with pytest.raises(RunError, match="node 'z' of the core is not among the nodes of 'site'"):
        condensed_graph(SITE, [pack("z")], matrix(1, []), [""])


@pytest.mark.parametrize(
    ("site", "words"),
    [
        (replace(SITE, texts=("First text, changed.", *SITE.texts[1:])), "with another SHA-256"),
        (replace(SITE, node_ids=("z", *SITE.node_ids[1:])), "node 'a', which is not in the folder"),
    ],
)
def test_chunks_of_other_texts_are_refused(site: TextGraph, words: str) -> None:
    assert chunk_texts([pack("c", ("b", 0, 6))], site) == ("Second",)
    with pytest.raises(RunError, match=rf"node 'c', round 4: the chunk \[0:5\] .*{words}.*name the folder"):
        chunk_texts([pack("c", ("b", 0, 6), ("a", 0, 5))], site)
