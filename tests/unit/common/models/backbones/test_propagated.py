"""APPNP and generalised PageRank."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.nn import APPNP

from fedtag.common.models.backbones.propagated import Propagated, pagerank_weights
from fedtag.common.models.classifier import hops_of
from fedtag.common.models.parameters import load_parameters, parameters_of
from tests.unit.common.models.small import adjacency, backbone, dense, features, path


def predicted(model: Propagated, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The last hidden state of the MLP, and H."""
    *inner, last = model.maps
    for linear in inner:
        x = (x @ linear.weight.T + linear.bias).relu()
    return x, x @ last.weight.T + last.bias


def test_appnp_is_the_exact_inverse_far_out_and_pygs_recursion() -> None:
    x, matrix = features(), adjacency()
    # Eight steps of a recursion that the model sums in another order.
    model = backbone("appnp", layers=3, hops=8, restart=0.2)
    assert isinstance(model, Propagated)
    hidden, own = predicted(model, x)
    pyg = APPNP(8, 0.2, normalize=False, add_self_loops=False)(own, matrix.edge_index, matrix.weight)
    z, logits = model.hidden_and_logits(x, matrix)
    torch.testing.assert_close(logits, pyg)
    torch.testing.assert_close(model(x, matrix), pyg)
    torch.testing.assert_close(z, dense(matrix) @ hidden)

    far = backbone("appnp", layers=3, hops=64, restart=0.2)
    load_parameters(far, parameters_of(model))
    exact = torch.linalg.solve(torch.eye(len(x)) - 0.8 * dense(matrix), 0.2 * own)
    torch.testing.assert_close(far(x, matrix), exact, atol=1e-5, rtol=1e-4)


def test_on_a_path_after_one_step() -> None:
    model = Propagated(1, 1, 1, 2, 0.0, pagerank_weights(1, 0.1))
    with torch.no_grad():
        for linear in model.maps:
            linear.weight.fill_(1)
            linear.bias.zero_()
    torch.testing.assert_close(model(torch.tensor([[1.0], [3.0]]), path()), torch.tensor([[1.9], [2.1]]))


def test_with_a_restart_of_one_it_is_the_mlp() -> None:
    model = backbone("appnp", restart=1.0)
    assert isinstance(model, Propagated)
    assert torch.equal(model(features(), adjacency()), model.maps[1](model.maps[0](features()).relu()))


def test_without_a_restart_it_is_the_last_power() -> None:
    model = backbone("appnp", restart=0.0, hops=3)
    assert isinstance(model, Propagated)
    expected = torch.linalg.matrix_power(dense(adjacency()), 3) @ predicted(model, features())[1]
    torch.testing.assert_close(model(features(), adjacency()), expected)


def test_gpr_begins_as_appnp() -> None:
    gpr, appnp = backbone("gpr"), backbone("appnp")
    sent = parameters_of(gpr)
    torch.testing.assert_close(sent.pop("weights").sum(), torch.tensor(1.0))
    load_parameters(appnp, sent)
    assert torch.equal(gpr(features(), adjacency()), appnp(features(), adjacency()))


def test_gpr_is_the_polynomial_and_learns_its_weights() -> None:
    x, matrix, model = features(), adjacency(), backbone("gpr", hops=4)
    assert isinstance(model, Propagated)
    own = predicted(model, x)[1].detach()
    powers = torch.stack([torch.linalg.matrix_power(dense(matrix), k) @ own for k in range(5)])
    gamma = torch.tensor([0.5, -1.0, 0.25, 2.0, -0.125])
    with torch.no_grad():
        model.weights.copy_(gamma)
    torch.testing.assert_close(model(x, matrix), torch.einsum("k,kij->ij", gamma, powers))

    assert isinstance(model.weights, nn.Parameter)
    model(x, matrix).sum().backward()
    torch.testing.assert_close(model.weights.grad, powers.sum((1, 2)))


def test_both_read_as_far_as_they_propagate() -> None:
    assert [hops_of(backbone(name, hops=hops)) for name in ("appnp", "gpr") for hops in (1, 6)] == [
        1,
        6,
        1,
        6,
    ]
