from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.models import assembly
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.backbones.tagcn import TAGCN
from fedtag.common.models.dropout import dropout
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.models.spec import BACKBONES
from fedtag.common.randomness import seeded
from fedtag.common.settings.run_settings import RunSettings
from fedtag.common.settings.sections import ModelConfig

NODES, INPUTS, HIDDEN, CLASSES = 7, 5, 4, 3


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def edges(nodes: int = NODES) -> torch.Tensor:
    """A ring with a chord, both directions."""
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    pairs = torch.cat([ring, torch.tensor([[0], [3]])], dim=1)
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def adjacency() -> Adjacency:
    return normalised_adjacency(edges(), NODES, torch.rand(2 * (NODES + 1), generator=generator(1)) + 0.5)


def features(nodes: int = NODES) -> torch.Tensor:
    return torch.randn(nodes, INPUTS, generator=generator(2))


def backbone(family: str, layers: int = 2, rate: float = 0.5) -> Backbone:
    model = ModelConfig(backbone=family, hidden=HIDDEN, layers=layers, dropout=rate)
    built = seeded(lambda: assembly.backbone(model, INPUTS, CLASSES), 3)
    assert isinstance(built, Backbone)
    return built


def stacked(model: Backbone, x: torch.Tensor, layer: object) -> torch.Tensor:
    for place, module in enumerate(model.layers):
        x = layer(module, x)  # type: ignore[operator]
        if place < len(model.layers) - 1:
            x = x.relu()
    return x


def dense(matrix: Adjacency) -> torch.Tensor:
    out = torch.zeros(matrix.num_nodes, matrix.num_nodes)
    out[matrix.edge_index[1], matrix.edge_index[0]] = matrix.weight
    return out


@pytest.mark.parametrize("layers", [2, 3])
def test_gcn_is_the_closed_form_and_pygs_own_normalisation(layers: int) -> None:
    matrix, x, model = adjacency(), features(), backbone("gcn", layers)
    formula = stacked(model, x, lambda m, h: dense(matrix) @ h @ m.conv.lin.weight.T + m.conv.bias)
    torch.testing.assert_close(model(x, matrix), formula)

    weights = torch.rand(2 * (NODES + 1), generator=generator(1)) + 0.5
    torch.testing.assert_close(model(x, matrix), stacked(model, x, lambda m, h: plain_gcn(m, h, weights)))


def plain_gcn(module: torch.nn.Module, h: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    own = GCNConv(h.shape[1], module.conv.out_channels)
    own.load_state_dict(module.conv.state_dict())
    return own(h, edges(), weights)


def test_sage_is_the_closed_form() -> None:
    matrix, x, model = adjacency(), features(), backbone("sage")
    links = (dense(matrix) > 0).float().fill_diagonal_(0)
    mean = links / links.sum(1, keepdim=True)

    def layer(m: torch.nn.Module, h: torch.Tensor) -> torch.Tensor:
        return mean @ h @ m.conv.lin_l.weight.T + m.conv.lin_l.bias + h @ m.conv.lin_r.weight.T

    torch.testing.assert_close(model(x, matrix), stacked(model, x, layer))
    plain = SAGEConv(INPUTS, HIDDEN)
    plain.load_state_dict(model.layers[0].conv.state_dict())
    torch.testing.assert_close(model.layers[0](x, matrix), plain(x, edges()))


def test_gat_is_pygs_with_self_loops() -> None:
    matrix, x, model = adjacency(), features(), backbone("gat")

    def layer(m: torch.nn.Module, h: torch.Tensor) -> torch.Tensor:
        plain = GATConv(h.shape[1], m.conv.out_channels, add_self_loops=True)
        plain.load_state_dict(m.conv.state_dict())
        return plain(h, edges())

    torch.testing.assert_close(model(x, matrix), stacked(model, x, layer))


def test_tagcn_is_the_closed_form() -> None:
    matrix, x, model = adjacency(), features(), backbone("tagcn")

    def layer(m: torch.nn.Module, h: torch.Tensor) -> torch.Tensor:
        weights = [lin.weight for lin in m.conv.lins]
        assert len(weights) == 3
        powers = (torch.linalg.matrix_power(dense(matrix), k) for k in range(3))
        return sum((power @ h @ w.T for power, w in zip(powers, weights, strict=True)), m.conv.bias)

    torch.testing.assert_close(model(x, matrix), stacked(model, x, layer))


def test_tagcn_can_pass_what_differs_and_stop_what_is_equal() -> None:
    """On an even ring with alternating signs I - Â grows them and takes constants away."""
    nodes = 8
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    matrix = normalised_adjacency(torch.cat([ring, ring.flip(0)], dim=1), nodes)
    sign = torch.tensor([1.0, -1.0]).repeat(nodes // 2)[:, None]
    layer = TAGCN(1, 1)
    with torch.no_grad():
        for lin, value in zip(layer.conv.lins, (1.0, -1.0, 0.0), strict=True):
            lin.weight.fill_(value)
        layer.conv.bias.zero_()
    # The eigenvalue of Â for the alternating vector is (1 - 2) / 3.
    torch.testing.assert_close(layer(sign, matrix), 4 / 3 * sign)
    torch.testing.assert_close(layer(torch.ones_like(sign), matrix), torch.zeros_like(sign))


def test_mlp_ignores_the_graph() -> None:
    x, model = features(), backbone("mlp")
    expected = stacked(model, x, lambda m, h: functional.linear(h, m.linear.weight, m.linear.bias))
    torch.testing.assert_close(model(x, adjacency()), expected)


@pytest.mark.parametrize("family", BACKBONES.names)
def test_renumbering_the_nodes_renumbers_the_logits(family: str) -> None:
    order = torch.randperm(NODES, generator=generator(4))
    position = torch.argsort(order)
    x, model, weights = features(), backbone(family), torch.rand(2 * (NODES + 1), generator=generator(5))
    straight = model(x, normalised_adjacency(edges(), NODES, weights))
    permuted = model(x[order], normalised_adjacency(position[edges()], NODES, weights))
    torch.testing.assert_close(permuted, straight[order])


@pytest.mark.parametrize("family", BACKBONES.names)
@pytest.mark.parametrize("nodes", [1, 4])
def test_graphs_without_edges_work(family: str, nodes: int) -> None:
    x, model = features(nodes), backbone(family)
    alone = normalised_adjacency(torch.zeros(2, 0, dtype=torch.int64), nodes)
    logits = model(x, alone)
    assert logits.shape == (nodes, CLASSES)
    assert bool(logits.isfinite().all())
    logits.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
    # A node without neighbours is on its own, whoever else is in the graph.
    one = normalised_adjacency(torch.zeros(2, 0, dtype=torch.int64), 1)
    torch.testing.assert_close(logits[:1], model(x[:1], one))


@pytest.mark.parametrize("family", BACKBONES.names)
def test_dropout_needs_a_generator_and_repeats(family: str) -> None:
    matrix, x, model = adjacency(), features(), backbone(family)
    assert torch.equal(model(x, matrix), model(x, matrix))
    assert torch.equal(model(x, matrix, generator(1)), model(x, matrix, generator(1)))
    assert not torch.equal(model(x, matrix, generator(1)), model(x, matrix, generator(2)))
    assert not torch.equal(model(x, matrix, generator(1)), model(x, matrix))
    before = torch.get_rng_state()
    model(x, matrix, generator(1))
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_keeps_the_expectation() -> None:
    x = torch.ones(20_000)
    dropped = dropout(x, 0.25, generator())
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float(dropped.mean()) == pytest.approx(1, abs=0.02)
    assert dropout(x, 0.0, generator()) is x
    assert dropout(x, 0.25, None) is x


def test_entries_that_share_a_draw_are_dropped_independently() -> None:
    kept = (dropout(torch.ones(99_999), 0.3, generator()) > 0).float()
    assert kept.shape == (99_999,)
    by_place = kept[:-3].view(-1, 4)
    assert by_place.mean(0).tolist() == pytest.approx([0.7] * 4, abs=0.01)
    correlations = torch.corrcoef(by_place.T)[~torch.eye(4, dtype=torch.bool)]
    assert float(correlations.abs().max()) < 0.03


@pytest.mark.parametrize("family", BACKBONES.names)
def test_the_seed_gives_the_initial_values(family: str) -> None:
    config = ModelConfig(backbone=family, hidden=8)
    before = torch.get_rng_state()
    prints = [
        fingerprint(parameters_of(initial_backbone(RunSettings(model=config, seed=seed), 5, 3)))
        for seed in (0, 0, 1)
    ]
    assert torch.equal(torch.get_rng_state(), before)
    assert prints[0] == prints[1] != prints[2]


def test_the_hidden_state_is_what_the_last_layer_reads() -> None:
    matrix, x, model = adjacency(), features(), backbone("gcn", 3)
    hidden, logits = model.hidden_and_logits(x, matrix)
    assert torch.equal(logits, model(x, matrix))
    assert hidden.shape == (NODES, HIDDEN)
    assert bool((hidden >= 0).all())
    assert torch.equal(model.layers[-1](hidden, matrix), model(x, matrix))
