"""What FedC4's clients send one another, by their number: beside a broadcast, and beside the paper's Table 2."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import networkx
import pytest
from typer.testing import CliRunner

from common.fedc4 import NODES, PORTRAIT
from deploy.cli import app
from server.tracking.run_directory import RunDirectory

pytestmark = pytest.mark.benchmark

GRAPH = Path(__file__).resolve().parents[3] / "shared" / "data" / "graphs" / "planetoid_cora.npz"
CLIENTS = (5, 10, 15, 20)
RECLUSTER = 6
ROUNDS = RECLUSTER + 2
RATIO, DIMENSION, NUMBER = 0.08, 1433, 4
"""Of condensed nodes; of their features; bytes of one number."""
HEADINGS = "clients  clusters  letters a quiet round  bytes a round  broadcast  C log C N' d    all rounds  broadcast"


@dataclass(frozen=True)
class Sent:
    """Letters of one run.

    Args:
        letters, sizes: of each round, both kinds together.
        pairs: senders and receivers in the rounds in which only clusters talk.
    """

    letters: Counter[int]
    sizes: Counter[int]
    pairs: frozenset[tuple[str, str]]

    @property
    def quiet(self) -> list[int]:
        """Rounds between two exchanges of statistics among all."""
        return [number for number in self.sizes if (number - 1) % RECLUSTER]


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
    rows = [row for row in RunDirectory.open(out).read_disclosures() if row.kind in (PORTRAIT, NODES)]
    letters, sizes = Counter[int](), Counter[int]()
    for row in rows:
        letters[row.round] += 1
        sizes[row.round] += row.bytes
    talk = {(row.sender, row.receiver) for row in rows if (row.round - 1) % RECLUSTER}
    return Sent(letters, sizes, frozenset(talk))


def test_letters_grow_as_the_clusters_and_not_as_the_square_of_the_clients(tmp_path: Path) -> None:
    if not GRAPH.exists():
        pytest.skip(f"{GRAPH} is not here; it holds Cora's bags of words")
    print(f"\n{HEADINGS}")  # noqa: T201
    for clients in CLIENTS:
        own, broadcast = (sent(tmp_path, clients, exchange) for exchange in ("selected", "broadcast"))
        groups = list(networkx.connected_components(networkx.Graph(own.pairs)))
        within = sum(len(group) * (len(group) - 1) for group in groups)
        # A portrait to each peer of the cluster, and now and then nodes that are new to it.
        for number in own.quiet:
            assert own.letters[number] <= 2 * within
        quiet = sum(own.sizes[number] for number in own.quiet) / len(own.quiet)
        loud = sum(broadcast.sizes[number] for number in broadcast.quiet) / len(broadcast.quiet)
        nodes = RATIO * 2708 / clients
        formula = clients * math.log2(clients) * nodes * DIMENSION * NUMBER
        print(  # noqa: T201
            f"{clients:7d}  {'+'.join(str(len(group)) for group in groups):>8}"
            f"{sum(own.letters[number] for number in own.quiet) / len(own.quiet):23.1f}{quiet:15,.0f}{loud:11,.0f}"
            f"{formula:10,.0f}{sum(own.sizes.values()):14,}{sum(broadcast.sizes.values()):11,}"
        )
        assert quiet < loud or within == clients * (clients - 1)
        assert sum(own.sizes.values()) <= sum(broadcast.sizes.values())
