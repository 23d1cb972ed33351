"""Seconds of 100 rounds of FedAvg in which all clients are trained at once, beside rounds with one after the other.

On a GPU if there is one. Counted is everything after the programs are loaded and the data divided: reading the sites'
folders, rounds, capture of the graphs, files, report. STACKED_ENGINE names a JSON file for the figures.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import torch

from fedtag.client.data.text_graph import TextGraph
from fedtag.common.config import RunConfig
from fedtag.runs.simulation import prepare, run_in_process
from fedtag.testing.graphs import SPLITS
from fedtag.testing.trial import silent
from tests.benchmarks.drawn_graphs import drawn_graph

pytestmark = pytest.mark.benchmark

ROUNDS, FEW = 100, 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MOST_SECONDS = 2.0
"""On one H200, for Cora's words and ten clients."""
NODES, CLIENTS, CLASSES = 542, 100, 7
"""Of drawn clients, each as large as one of five that share Cora."""
Measured = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    """All figures, as far as they were measured."""
    return {}


@pytest.fixture
def measured(tmp_path: Path, written: dict[str, Any]) -> Measured:
    """Runs a federation and tells what it took."""

    def once(
        name: str, engine: str, rounds: int, source: str, clients: int, graphs: Sequence[TextGraph] = ()
    ) -> Any:
        flat = {"method": "fedavg", "engine": engine, "rounds": rounds, "clients": clients, "device": DEVICE}
        out = tmp_path / f"{name}-{engine}-{rounds}"
        flat |= {"data.source": source, "out": str(out), "tracking.trackers": ""}
        run = prepare(RunConfig.from_flat(flat), graphs)
        began = time.monotonic()
        run_in_process(run, silent())
        whole = time.monotonic() - began
        rows = run.directory.read_rounds()
        training = [row.seconds_by_phase.get("train", 0.0) for row in rows]
        found = {
            "seconds": whole,
            "of rounds": sum(row.seconds for row in rows),
            "of training in rounds": sum(training),
            "median ms a round": 1000 * median(row.seconds for row in rows),
            "test accuracy": rows[-1].test_accuracy,
        }
        written[f"{name}, {engine}, {rounds} rounds"] = found
        keep(written)
        return found

    return once


def keep(figures: dict[str, Any]) -> None:
    """Write what was measured so far."""
    if place := os.environ.get("STACKED_ENGINE"):
        chip = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
        about = {"chip": chip, "torch": torch.__version__, "threads": torch.get_num_threads()}
        Path(place).write_text(json.dumps({**about, **figures}, indent=1), encoding="utf-8")


def drawn_clients() -> list[TextGraph]:
    """Clients with drawn graphs of their own, and features as wide as encoded texts."""
    found = []
    for seed in range(CLIENTS):
        graph = drawn_graph(NODES, 2.0, classes=CLASSES, seed=seed)
        edges = graph.edge_index.numpy().T
        edges = edges[edges[:, 0] < edges[:, 1]]
        rng = np.random.default_rng(seed)
        features = rng.standard_normal((NODES, 384)).astype(np.float32)
        labels = graph.y.numpy().astype(np.int64)
        features[np.arange(NODES), labels] += 2
        found.append(
            TextGraph(
                name=f"site-{seed:03}",
                node_ids=tuple(range(NODES)),
                texts=("",) * NODES,
                labels=labels,
                split=SPLITS[np.arange(NODES) % len(SPLITS)],
                edges=edges,
                edge_weights=np.ones(len(edges), np.float32),
                classes=tuple("abcdefg"),
                features=features,
            )
        )
    return found


def test_a_hundred_rounds_on_cora(measured: Measured, shared_data: Path) -> None:
    source = str(shared_data / "graphs" / "planetoid_cora.npz")
    # The first runs load kernels and templates.
    for engine in ("stacked", "separate"):
        measured("loading", engine, 2, source, 10)
    separate = measured("Cora, 10 clients", "separate", FEW, source, 10)
    stacked = measured("Cora, 10 clients", "stacked", ROUNDS, source, 10)
    assert stacked["test accuracy"] > 0.6
    if DEVICE == "cuda":
        assert stacked["seconds"] <= MOST_SECONDS
        assert stacked["median ms a round"] < separate["median ms a round"] / 5


def test_a_hundred_clients(measured: Measured) -> None:
    graphs = drawn_clients()
    source = ";".join(graph.name for graph in graphs)
    measured("drawn, 100 clients, loading", "stacked", 2, source, CLIENTS, graphs)
    stacked = measured(
        "drawn, 100 clients", "stacked", ROUNDS if DEVICE == "cuda" else FEW, source, CLIENTS, graphs
    )
    assert stacked["test accuracy"] > 0.5
    if DEVICE == "cuda":
        separate = measured("drawn, 100 clients", "separate", 2, source, CLIENTS, graphs)
        assert stacked["median ms a round"] < separate["median ms a round"] / 10
