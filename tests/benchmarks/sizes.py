"""What a simulated run over large drawn graphs takes: seconds, memory of host and device, bytes of evidence.

python -m tests.benchmarks.sizes FOLDER --nodes 77000 --clients 5 --edges 15.6 --method dance --device cuda --rounds 3

Every client has a graph of its own, with drawn features and a text of one line a node. Graphs are drawn first, by a
process of its own, and lie in FOLDER; what is printed is one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from fedtag.client.data.text_graph import TEST, TRAIN, VAL, TextGraph, canonical_edges
from fedtag.client.data.writing import write_folder
from fedtag.deploy.cli import main as command
from tests.benchmarks.drawn_graphs import DIMENSION, drawn_graph

CLASSES = 10
DRAW = "--draw"
GIB = 2**30


def site(number: int, nodes: int, edges: float, folder: Path) -> Path:
    """The folder of one client; it is drawn once."""
    place = folder / f"site-{number}"
    if (place / "meta.json").is_file():
        return place
    drawn = drawn_graph(nodes, edges, classes=CLASSES, seed=number)
    source, target = drawn.edge_index.numpy()
    once = np.stack([source, target], axis=1)[source < target]
    pairs, weights, _, _ = canonical_edges(once, np.ones(len(once), np.float32), False)
    labels = drawn.y.numpy().astype(np.int64)
    split = np.random.default_rng(number).choice([TRAIN, VAL, TEST], nodes, p=[0.6, 0.2, 0.2])
    graph = TextGraph(
        f"site-{number}",
        tuple(range(nodes)),
        tuple(f"Node {node} of site {number}." for node in range(nodes)),
        labels,
        split.astype(np.int8),
        pairs,
        weights,
        tuple(f"class {one}" for one in range(CLASSES)),
        features=drawn.chunks.mean(1).numpy().reshape(nodes, DIMENSION),
    )
    return write_folder(graph, place)


def bytes_of(folder: Path, pattern: str) -> int:
    """Of all files that match."""
    return sum(file.stat().st_size for file in folder.rglob(pattern) if file.is_file())


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=77_000)
    parser.add_argument("--edges", type=float, default=15.6, help="drawn for each node")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--method", default="dance")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument(DRAW, action="store_true", help="draw the graphs and end")
    given = parser.parse_args()
    each = given.nodes // given.clients
    data = given.folder / f"{given.nodes}-{given.clients}"
    if given.draw:
        for number in range(given.clients):
            site(number, each, given.edges, data)
        return
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tests.benchmarks.sizes", *sys.argv[1:], DRAW], check=True)
    drawn = time.perf_counter() - start
    sites = [data / f"site-{number}" for number in range(given.clients)]
    out = given.folder / f"run-{given.nodes}-{given.method}-{given.device.replace(':', '')}"
    sys.argv = ["fedtag", "simulate", "--data", ";".join(map(str, sites)), "--out", str(out)]
    if given.clients > 1:
        sys.argv += ["--clients", str(given.clients)]
    sys.argv += ["--method", given.method, "--rounds", str(given.rounds), "--device", given.device]
    sys.argv += [word for one in given.set for word in ("--set", one)]
    start = time.perf_counter()
    try:
        command()
    except SystemExit as ended:
        if ended.code:
            raise
    whole = time.perf_counter() - start
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    seconds = [row["seconds"] for row in rows]
    on_device = torch.cuda.max_memory_allocated() / GIB if torch.cuda.is_available() else 0.0
    told = {
        "nodes": each * given.clients,
        "clients": given.clients,
        "method": given.method,
        "device": given.device,
        "drawing": round(drawn, 1),
        "whole": round(whole, 1),
        "first round": round(seconds[0], 2),
        "round": round(median(seconds[1:] or seconds), 3),
        "host GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB, 2),
        "device GiB": round(on_device, 2),
        "evidence MB": round(bytes_of(out, "*.parquet") / 1e6, 1),
        "phases": {name: round(value, 3) for name, value in rows[-1]["seconds_by_phase"].items()},
    }
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main()
