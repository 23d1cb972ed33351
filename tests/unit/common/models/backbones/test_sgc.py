from __future__ import annotations

import gc
import weakref

import torch

from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.models.backbones.sgc import SGC
from tests.unit.common.models.small import CLASSES, INPUTS, NODES, adjacency, backbone, dense, features, path


def test_it_is_the_closed_form() -> None:
    x, matrix, model = features(), adjacency(), backbone("sgc", hops=3)
    assert isinstance(model, SGC)
    smooth = torch.linalg.matrix_power(dense(matrix), 3) @ x
    z, logits = model.hidden_and_logits(x, matrix)
    torch.testing.assert_close(z, smooth)
    torch.testing.assert_close(logits, smooth @ model.linear.weight.T + model.linear.bias)


def test_on_a_path_of_two_hops() -> None:
    model = SGC(1, 1, 2, 0.0)
    with torch.no_grad():
        model.linear.weight.fill_(1)
        model.linear.bias.zero_()
    torch.testing.assert_close(model(torch.tensor([[1.0], [3.0]]), path()), torch.tensor([[2.0], [2.0]]))


def test_two_seeds_come_to_the_same_optimum() -> None:
    y, single = torch.arange(NODES) % CLASSES, adjacency()
    # In double precision, since the optimum is flat.
    x, matrix = features().double(), Adjacency(single.edge_index, single.weight.double(), NODES)

    def optimum(seed: int) -> torch.Tensor:
        model = backbone("sgc", seed=seed).double()
        stepper = torch.optim.LBFGS(
            model.parameters(), max_iter=500, tolerance_change=0, line_search_fn="strong_wolfe"
        )

        def closure() -> float:
            stepper.zero_grad()
            # Decay makes the optimum the only one.
            decay = sum(p.square().sum() for p in model.parameters())
            loss = torch.nn.functional.cross_entropy(model(x, matrix), y) + 0.01 * decay
            loss.backward()
            return float(loss.detach())

        stepper.step(closure)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    torch.testing.assert_close(optimum(0), optimum(1), atol=1e-4, rtol=1e-4)


class Counted(Adjacency):
    """Counts its products."""

    products = 0

    def propagate(self, x: torch.Tensor) -> torch.Tensor:
        type(self).products += 1
        return super().propagate(x)


def test_powers_are_computed_once_a_graph() -> None:
    x, plain = features(), adjacency()
    matrix, model = Counted(plain.edge_index, plain.weight, plain.num_nodes), backbone("sgc")
    Counted.products = 0
    first = model(x, matrix)
    assert torch.equal(first, model(x, matrix))
    assert Counted.products == 2
    # Another depth, and changed features, are computed anew.
    backbone("sgc", hops=3)(x, matrix)
    assert Counted.products == 5
    x.mul_(2)
    torch.testing.assert_close(
        model(x, matrix), model(x, Counted(plain.edge_index, plain.weight, plain.num_nodes))
    )
    assert not torch.allclose(model(x, matrix), first)


def test_powers_of_learned_features_pass_gradients() -> None:
    x, matrix = features(), adjacency()
    matrix.power(x, 2)
    with torch.no_grad():
        matrix.power(x.requires_grad_(), 2)
    matrix.power(x, 2).sum().backward()
    expected = torch.linalg.matrix_power(dense(matrix), 2).sum(0)[:, None].expand(-1, INPUTS)
    torch.testing.assert_close(x.grad, expected)


def test_powers_die_with_their_features() -> None:
    x, matrix = features(), adjacency()
    product = weakref.ref(matrix.power(x, 2))
    assert product() is not None
    del x
    gc.collect()
    assert product() is None


def test_a_graph_without_links_is_a_linear_map() -> None:
    alone = normalised_adjacency(torch.zeros(2, 0, dtype=torch.int64), NODES)
    model = backbone("sgc")
    assert isinstance(model, SGC)
    torch.testing.assert_close(model(features(), alone), model.linear(features()))
