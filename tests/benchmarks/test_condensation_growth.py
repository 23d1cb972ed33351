"""How the cost of a round's condensation grows with the graph: processor seconds and memory, ten edges a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from torch.nn.functional import normalize

from fedtag.client.condense.core.candidates import candidate_support, indexed_support
from fedtag.client.condense.core.prior import evidence_prior
from fedtag.common.numerics.ragged import Ragged
from tests.benchmarks.drawn_graphs import drawn_graph

pytestmark = pytest.mark.benchmark

REPOSITORY = Path(__file__).resolve().parents[2]
OUT = REPOSITORY / "build" / "condensation-growth"
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
COMPARED = (10_000, 30_000, 100_000)
"""Nodes of the graphs whose cores are linked both ways."""
MOST = 1.1
"""Exponent of all seconds over edges and core nodes."""


@cache
def taken(nodes: int, *more: str) -> dict[str, Any]:
    """What one site took, in a process of its own, whose memory is then its own."""
    command = [sys.executable, "-m", "tests.benchmarks.condensing_site", str(nodes), "cpu", *more]
    single = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=REPOSITORY, env=single, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


def exponent(size: pd.Series, cost: pd.Series) -> float:
    """The slope of a line through the logarithms."""
    return float(np.polyfit(np.log(size), np.log(cost), 1)[0])


def test_growth() -> None:
    rows = [taken(nodes) for nodes in SIZES]
    table = pd.json_normalize(rows)
    table.columns = [name.removeprefix("seconds.") for name in table.columns]
    parts = list(rows[0]["seconds"])
    table["all"] = table[parts].sum(axis=1)
    table["MB of the work"] = table["MB at most"] - table["MB before"]
    size = table["edges"] + table["core"]
    growing = [*parts, "all", "two-hop entries", "MB of the work"]
    exponents = pd.Series({name: exponent(size, table[name]) for name in growing}, name="exponent")
    both = pd.DataFrame(
        {
            "nodes": COMPARED,
            "core": [taken(nodes)["core"] for nodes in COMPARED],
            **{
                name: [taken(nodes, *more)["seconds"]["topology"] for nodes in COMPARED]
                for name, more in (("all pairs", ()), ("index", ("1",)))
            },
        }
    )
    OUT.mkdir(parents=True, exist_ok=True)
    table.to_csv(OUT / "growth.csv", index=False, float_format="%.4g")
    exponents.to_csv(OUT / "exponents.csv", float_format="%.3f")
    both.to_csv(OUT / "topology.csv", index=False, float_format="%.4g")
    drawn(table, parts, size).savefig(OUT / "growth.png", dpi=120)
    print(f"\n{table.T.to_string()}\n\n{exponents.to_string()}\n\n{both.to_string(index=False)}")  # noqa: T201
    assert table["approximate"].tolist() == [False, False, False, True, True]
    assert exponents["all"] <= MOST
    assert exponents["two-hop entries"] <= 1.01
    assert exponents["MB of the work"] <= MOST


def test_the_index_finds_most_candidates() -> None:
    rows = []
    for core in (1000, 3000, 8000):
        chunks = drawn_graph(core, 1.0).chunks
        unit = normalize(chunks.mean(1), dim=1)
        of_row = Ragged(2 * torch.arange(core + 1), torch.arange(2 * core))
        prior = evidence_prior(of_row, chunks.flatten(0, 1))
        (exact, real, value), (found, known, _) = (
            candidate_support(unit, prior, 10),
            indexed_support(unit, prior, 10),
        )
        hit = ((exact.unsqueeze(2) == found.unsqueeze(1)) & known.unsqueeze(1)).any(2) & real
        rows.append(
            {
                "core": core,
                "candidates found": float(hit.sum() / real.sum()),
                "of S found": float((value * hit).sum() / value.sum()),
            }
        )
    OUT.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows)
    table.to_csv(OUT / "recall.csv", index=False, float_format="%.4f")
    print(f"\n{table.to_string(index=False)}")  # noqa: T201
    assert (table["candidates found"] > 0.85).all()


def drawn(table: pd.DataFrame, parts: list[str], size: pd.Series) -> Figure:
    """Seconds of each part, on logarithmic axes, beside a line of slope 1."""
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    for name in [*parts, "all"]:
        axes.loglog(size, table[name], marker="o", label=name, linewidth=2 if name == "all" else 1)
    axes.loglog(
        size, table["all"].iloc[0] * size / size.iloc[0], linestyle=":", color="grey", label="slope 1"
    )
    axes.set(xlabel="edges + core nodes", ylabel="processor seconds, one thread")
    axes.legend(fontsize=8)
    return figure
