"""What a round costs in counts that no machine changes: operator calls, bytes, allocations, and how they grow.

`python -m tests.benchmarks.counts --accept` writes the reference that `make test` compares with.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

import fedtag
from fedtag.client.train.footprint import Held
from tests.benchmarks.drawn_graphs import drawn_graph

REFERENCE = Path(__file__).with_name("counts.json")
METHODS = ("fedavg", "dance")
SIZES = (600, 2400)
"""Nodes of the two graphs by which growth is told."""
CLIENTS, ROUNDS = 2, 2
SETTINGS = {"dance.exact-core": 16}
"""The index at both sizes, so that growth is of one way of finding links."""


class Counted(Held):
    """Also counts the operators that were called.

    Attributes:
        calls: so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, *call: Any) -> Any:
        self.calls += 1
        return super().__torch_dispatch__(*call)


def graph_of(nodes: int) -> fedtag.Graph:
    """A drawn graph with features, whose nodes have short texts."""
    drawn = drawn_graph(nodes, 5.0, classes=4)
    source, target = drawn.edge_index.numpy()
    once = source < target
    table = pd.DataFrame(
        {
            "id": np.arange(nodes),
            "text": [f"Node {node}." for node in range(nodes)],
            "label": [f"class {label}" for label in drawn.y.tolist()],
        }
    )
    edges = pd.DataFrame({"src": source[once], "dst": target[once]})
    features: Tensor = drawn.chunks.mean(1)
    return fedtag.Graph.from_pandas(
        table, edges, id="id", text="text", label="label", features=features.numpy()
    )


def run_counts(method: str, nodes: int, rounds: int, folder: Path) -> dict[str, float]:
    """Of a whole run."""
    with Counted() as counted:
        run = fedtag.simulate(
            graph_of(nodes),
            method,
            clients=CLIENTS,
            rounds=rounds,
            seed=0,
            device="cpu",
            settings=SETTINGS if method == "dance" else {},
            out=folder / f"{method}-{nodes}-{rounds}",
            progress=False,
        )
    last = run.rounds.iloc[-1]
    return {
        "calls": counted.calls,
        "most bytes": counted.most,
        "bytes up": float(last["bytes_up"]),
        "bytes down": float(last["bytes_down"]),
    }


def counts() -> dict[str, float]:
    """Of a round of each method on the larger graph, and the exponents with which calls and bytes grow."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        for method in METHODS:
            rounds, most = [], []
            for nodes in SIZES:
                fewer, more = (
                    run_counts(method, nodes, number, Path(name)) for number in (ROUNDS, ROUNDS + 1)
                )
                rounds.append(more["calls"] - fewer["calls"])
                most.append(more["most bytes"])
            found[f"{method}: operator calls of a round"] = rounds[-1]
            found[f"{method}: most bytes of tensors"] = most[-1]
            found[f"{method}: bytes up of a round"] = more["bytes up"]
            found[f"{method}: bytes down of a round"] = more["bytes down"]
            found[f"{method}: exponent of operator calls"] = exponent(rounds)
            found[f"{method}: exponent of the most bytes"] = exponent(most)
    return {name: round(value, 3) for name, value in found.items()}


def exponent(values: Sequence[float]) -> float:
    """With which a count grows with nodes, from one of the sizes to the other."""
    return math.log(values[-1] / values[0]) / math.log(SIZES[-1] / SIZES[0])


def complaints(seen: Mapping[str, float], reference: Mapping[str, float]) -> list[str]:
    """The counts that are not what they were: a tenth apart, of exponents .1."""
    found = []
    for name in sorted(seen.keys() | reference.keys()):
        was, now = reference.get(name, math.nan), seen.get(name, math.nan)
        bound = 0.1 if "exponent" in name else 0.1 * abs(was)
        if not abs(now - was) <= bound:
            found.append(
                f"{name}: {now:g}, and {was:g} in {REFERENCE.name}: if that is meant, accept it by "
                "`python -m tests.benchmarks.counts --accept`"
            )
    return found


def main() -> None:
    """Print the counts, and keep them as the reference if asked."""
    seen = counts()
    print(json.dumps(seen, indent=1))  # noqa: T201
    if "--accept" in sys.argv:
        REFERENCE.write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
