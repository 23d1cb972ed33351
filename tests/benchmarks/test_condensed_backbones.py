"""What models of other families learn from FedGC's condensed graph of Cora (FedGC, Table 3).

The models are PyTorch Geometric's, with its own normalisation, as whoever gets the released file would train them. They
are asked about the test nodes of each site, with the features that it keeps. Without and with the bottleneck.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import APPNP, ChebConv, GCNConv, SAGEConv, SGConv

from fedtag.client.methods.fedgc.preparation import kept_preparation
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.server.methods.fedgc.release import CondensedRelease, read_condensed

pytestmark = pytest.mark.benchmark

GRAPH = "graphs/planetoid_cora.npz"
HIDDEN, STEPS, SEEDS = 64, 200, 5
SETTINGS = {
    "data.dirichlet-alpha": "1.0",
    "evaluation.every": "5",
    "neighbour-exchange.mode": "summed",
    "neighbour-exchange.hops": "2",
    "neighbour-exchange.min-neighbours": "1",
}


class Two(nn.Module):
    """Two convolutions with ReLU and dropout."""

    def __init__(self, layer: Callable[[int, int], nn.Module], inputs: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = layer(inputs, HIDDEN), layer(HIDDEN, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = functional.relu(self.first(functional.dropout(x, 0.5, self.training), edge_index))
        return self.second(functional.dropout(hidden, 0.5, self.training), edge_index)


class Linear(nn.Module):
    """A layer of an MLP."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.linear(x)


class Propagated(nn.Module):
    """APPNP: an MLP, then ten steps of personalised PageRank."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.mlp, self.steps = Two(Linear, inputs, classes), APPNP(10, 0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.steps(self.mlp(x, edge_index), edge_index)


class Simple(nn.Module):
    """SGC: two propagations and one linear map."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.conv = SGConv(inputs, classes, K=2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


FAMILIES: dict[str, Callable[[int, int], nn.Module]] = {
    "GCN": lambda inputs, classes: Two(GCNConv, inputs, classes),
    "SAGE": lambda inputs, classes: Two(SAGEConv, inputs, classes),
    "SGC": Simple,
    "APPNP": Propagated,
    "Cheby": lambda inputs, classes: Two(lambda a, b: ChebConv(a, b, K=2), inputs, classes),
    "MLP": lambda inputs, classes: Two(Linear, inputs, classes),
}


def condensed(folder: Path, graph: Path, bottleneck: str) -> CondensedRelease:
    options = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    command = [
        sys.executable,
        "-m",
        "fedtag.deploy.cli",
        "simulate",
        "--method",
        "fedgc",
        "--data",
        str(graph),
    ]
    command += ["--clients", "10", "--partition", "dirichlet", "--rounds", "60", "--ratio", "0.026"]
    command += [*options, f"--set=fedgc.bottleneck={bottleneck}", "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return read_condensed(folder / "condensed.safetensors")


def accuracy(family: str, release: CondensedRelease, sessions: list[SiteRun], seed: int) -> float:
    torch.manual_seed(seed)
    graph = release.graph
    model = FAMILIES[family](graph.x.shape[1], len(release.card.classes))
    adam = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(STEPS):
        adam.zero_grad()
        functional.cross_entropy(model(graph.x, graph.edge_index), graph.y).backward()
        adam.step()
    model.eval()
    right = tested = 0
    for session in sessions:
        kept = kept_preparation(session.site.state, release.teacher)
        assert kept is not None
        with torch.no_grad():
            found = model(kept.x, session.data.graph.edge_index).argmax(1)
        test = session.data.graph.test_mask
        right += int((found == session.data.graph.y)[test].sum())
        tested += int(test.sum())
    return right / tested


@pytest.mark.parametrize("bottleneck", ["false", "true"])
def test_other_families_learn_as_much(bottleneck: str, shared_data: Path, tmp_path: Path) -> None:
    release = condensed(tmp_path / "run", shared_data / GRAPH, bottleneck)
    sessions = [
        SiteRun(Site(folder.name, folder, folder, tmp_path / "cache", "cpu"), release.config)
        for folder in sorted((tmp_path / "run" / "sites").iterdir())
        if folder.is_dir()
    ]
    assert len(sessions) == 10
    found = {}
    for family in FAMILIES:
        scores = [accuracy(family, release, sessions, seed) for seed in range(SEEDS)]
        found[family] = mean(scores)
        print(  # noqa: T201
            f"\nbottleneck {bottleneck}, {family}: test {100 * mean(scores):.1f}% over {SEEDS} models", end=""
        )
    graphs = [found[family] for family in FAMILIES if family != "MLP"]
    assert max(graphs) - min(graphs) < 0.03
