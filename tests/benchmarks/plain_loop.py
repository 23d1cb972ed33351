"""Federated averaging as one would write it with PyTorch Geometric alone: no message, no check, no record, no file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import deepcopy
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.nn import GCNConv

from fedtag.common.graph import Adjacency, Graph

EPOCHS = 3
RATE, DECAY = 0.01, 5e-4
DROPOUT = 0.5


class PlainGCN(nn.Module):
    """Two graph convolutions, on weights that are normalised once."""

    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = GCNConv(inputs, hidden, normalize=False)
        self.second = GCNConv(hidden, classes, normalize=False)

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        edges, weights = adjacency.edge_index, adjacency.weight
        hidden = self.first(dropout(x, DROPOUT, self.training), edges, weights).relu()
        return self.second(dropout(hidden, DROPOUT, self.training), edges, weights)


def trained(model: PlainGCN, graph: Graph, adjacency: Adjacency) -> dict[str, Tensor]:
    """The weights after the local epochs, by a fresh Adam."""
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=DECAY)
    model.train()
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        logits = model(graph.x, adjacency)[graph.train_mask]
        cross_entropy(logits, graph.y[graph.train_mask]).backward()
        optimiser.step()
    return deepcopy(model.state_dict())


@torch.no_grad()
def correct(model: PlainGCN, graph: Graph, adjacency: Adjacency) -> tuple[int, int]:
    """How many nodes of validation and test are right."""
    model.eval()
    right = model(graph.x, adjacency).argmax(1) == graph.y
    return int((right & graph.val_mask).sum()), int((right & graph.test_mask).sum())


def seconds_of_a_round(graphs: Sequence[Graph], hidden: int, classes: int, rounds: int) -> float:
    """Median processor seconds: each client scores the model of the round, trains it and scores it again; the weighted
    mean is the next one."""
    model = PlainGCN(graphs[0].x.shape[1], hidden, classes)
    shares = torch.tensor([float(graph.train_mask.sum()) for graph in graphs])
    shares /= shares.sum()
    state, spent = deepcopy(model.state_dict()), []
    sites = [(graph, graph.adjacency()) for graph in graphs]
    for _ in range(rounds):
        start, states = time.process_time(), []
        for graph, adjacency in sites:
            model.load_state_dict(state)
            correct(model, graph, adjacency)
            states.append(trained(model, graph, adjacency))
            correct(model, graph, adjacency)
        state = {
            name: torch.stack([one[name] for one in states]).mul(shares.view(-1, *[1] * value.ndim)).sum(0)
            for name, value in state.items()
        }
        spent.append(time.process_time() - start)
    return median(spent)
