"""What FedC4's clients send one another, by their number: beside a broadcast, and beside the paper's Table 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import networkx
import pytest
from typer.testing import CliRunner

from fedtag.common.methods.fedc4.names import NODES, PORTRAIT
from fedtag.deploy.cli import app
from fedtag.server.tracking.run_directory import RunDirectory

pytestmark = pytest.mark.benchmark

GRAPH = Path(__file__).resolve().parents[3] / "shared" / "data" / "graphs" / "planetoid_cora.npz"
CLIENTS = (5, 10, 15, 20)
RECLUSTER = 6
ROUNDS = RECLUSTER + 2
RATIO, DIMENSION, NUMBER, NODES_IN_ALL = 0.08, 1433, 4, 2708
"""Of condensed nodes; of their features; bytes of one number; nodes of the graph."""
HEADINGS = """
                                portraits, bytes a round        nodes, bytes in all rounds
clients  clusters               clusters         all         selected         all  C log C N' d"""


@dataclass(frozen=True)
class Sent:
    """Letters of one run.

    Args:
        talks: who told whom a portrait, in each round in which not all talk to all.
        portrait_bytes: the mean of these rounds.
        node_bytes: of all rounds.
    """

    talks: Mapping[int, frozenset[tuple[str, str]]]
    portrait_bytes: float
    node_bytes: int

    @property
    def clusters(self) -> dict[int, list[int]]:
        """The sizes of the groups that talk to one another, in each of these rounds."""
        graphs = {number: networkx.Graph(pairs) for number, pairs in self.talks.items()}
        return {number: [*map(len, networkx.connected_components(graph))] for number, graph in graphs.items()}


def sent(folder: Path, clients: int, exchange: str) -> Sent:
    """A short run on Cora's bags of words; what is condensed in little time weighs what it weighs in much."""
    settings = {"fedc4.exchange": exchange, "fedc4.recluster": RECLUSTER, "condenser.outer-loops": 2}
    out = folder / f"{exchange}-{clients}"
    options = ["--method", "fedc4", "--data", GRAPH, "--split", "0.6,0.2,0.2", "--clients", clients]
    options += ["--rounds", ROUNDS, "--ratio", RATIO, "--device", "cpu", "--out", out]
    for name, value in settings.items():
        options += ["--set", f"{name}={value}"]
    result = CliRunner().invoke(app, ["simulate", *map(str, options)])
    assert result.exit_code == 0, result.stderr
    rows = RunDirectory.open(out).read_disclosures()
    quiet = [row for row in rows if row.kind == PORTRAIT and (row.round - 1) % RECLUSTER]
    talks = {row.round: set[tuple[str, str]]() for row in quiet}
    for row in quiet:
        talks[row.round] |= {(one.sender, one.receiver) for one in row.crossings}
    return Sent(
        {number: frozenset(pairs) for number, pairs in talks.items()},
        sum(row.bytes for row in quiet) / len(talks),
        sum(row.bytes for row in rows if row.kind == NODES),
    )


def test_letters_grow_as_the_clusters_and_not_as_the_square_of_the_clients(tmp_path: Path) -> None:
    if not GRAPH.exists():
        pytest.skip(f"{GRAPH} is not here; it holds Cora's bags of words")
    print(HEADINGS)  # noqa: T201
    for clients in CLIENTS:
        own, broadcast = (sent(tmp_path, clients, exchange) for exchange in ("selected", "broadcast"))
        formula = clients * math.log2(clients) * RATIO * NODES_IN_ALL / clients * DIMENSION * NUMBER
        first = own.clusters[min(own.clusters)]
        print(  # noqa: T201
            f"{clients:7d}  {'+'.join(map(str, first)):<18}"
            f"{own.portrait_bytes:13,.0f}{broadcast.portrait_bytes:12,.0f}"
            f"{own.node_bytes:17,}{broadcast.node_bytes:12,}{formula:14,.0f}"
        )
        square = clients * (clients - 1)
        within = {number: sum(size * (size - 1) for size in sizes) for number, sizes in own.clusters.items()}
        assert {number: len(pairs) for number, pairs in own.talks.items()} == within
        assert {len(pairs) for pairs in broadcast.talks.values()} == {square}
        share = sum(within.values()) / len(within) / square
        assert own.portrait_bytes == pytest.approx(broadcast.portrait_bytes * share, rel=0.02)
        assert own.node_bytes <= broadcast.node_bytes
