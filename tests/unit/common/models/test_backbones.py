from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from fedtag.common.config import RunConfig
from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.backbones.tagcn import TAGCN
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.dropout import dropout
from fedtag.common.models.parameters import fingerprint, load_parameters, parameters_of
from fedtag.common.models.spec import BACKBONES
from tests.unit.common.models.small import (
    CLASSES,
    HIDDEN,
    INPUTS,
    NODES,
    adjacency,
    backbone,
    dense,
    edges,
    features,
    generator,
)


def stacked(model: NodeClassifier, x: torch.Tensor, layer: object) -> torch.Tensor:
    assert isinstance(model, Backbone)
    for place, module in enumerate(model.layers):
        x = layer(module, x)  # type: ignore[operator]
        if place < len(model.layers) - 1:
            x = x.relu()
    return x


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
def test_an_isolated_node_is_as_one_that_is_alone(family: str) -> None:
    x, model = features(NODES + 1), backbone(family)
    among = model(x, normalised_adjacency(edges(), NODES + 1))
    alone = model(x[-1:], normalised_adjacency(torch.zeros(2, 0, dtype=torch.int64), 1))
    torch.testing.assert_close(among[-1:], alone)


@pytest.mark.parametrize("family", BACKBONES.names)
def test_weights_and_links_matter_as_its_specification_says(family: str) -> None:
    x, model, spec = features(), backbone(family), BACKBONES.get(family)
    plain, weighted = model(x, normalised_adjacency(edges(), NODES)), model(x, adjacency())
    unlinked = model(x, normalised_adjacency(edges()[:, :0], NODES))
    assert torch.allclose(plain, weighted, atol=1e-6) != spec.reads_weights
    assert torch.allclose(plain, unlinked, atol=1e-6) != spec.reads_neighbours


@pytest.mark.parametrize("family", BACKBONES.names)
def test_parameters_are_the_whole_state(family: str) -> None:
    """What travels makes of another model the same one, through the state that is averaged."""
    x, model, other = features(), backbone(family), backbone(family, seed=9)
    assert not torch.allclose(model(x, adjacency()), other(x, adjacency()))
    sent = parameters_of(model)
    assert sent.keys() == dict(model.named_parameters()).keys()
    load_parameters(other, sent)
    assert torch.equal(model(x, adjacency()), other(x, adjacency()))


@pytest.mark.parametrize(
    ("family", "count"),
    [
        ("gcn", 92_231),
        ("gin", 100_553),
        ("gatedgcn", 125_511),
        ("monet", 125_163),
        ("appnp", 92_231),
        ("gpr", 92_231 + 11),
        ("cheb", 276_551),
        ("sgc", 10_038),
    ],
)
def test_parameters_for_the_words_of_cora(family: str, count: int) -> None:
    config = RunConfig.from_flat({"method": "fedavg", "model.backbone": family})
    assert sum(p.numel() for p in initial_backbone(config, 1433, 7).parameters()) == count


@pytest.mark.parametrize("family", BACKBONES.names)
def test_a_skip_is_a_linear_map_of_the_input_beside(family: str) -> None:
    x, model = features(), backbone(family, skip=True)
    with_skip = model(x, adjacency())
    beside = model.skip(x)
    with torch.no_grad():
        model.skip.weight.zero_()
        model.skip.bias.zero_()
    torch.testing.assert_close(with_skip, model(x, adjacency()) + beside)


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
    flat = {"method": "fedavg", "model.backbone": family, "model.hidden": 8}
    before = torch.get_rng_state()
    prints = [
        fingerprint(parameters_of(initial_backbone(RunConfig.from_flat({**flat, "seed": seed}), 5, 3)))
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
