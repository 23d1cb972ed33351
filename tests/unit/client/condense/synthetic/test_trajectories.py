from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from fedtag.client.condense.synthetic.sampling import whole_batch
from fedtag.client.condense.synthetic.sfgc import relative_distance, trajectory, walked
from fedtag.common.graph import Graph
from fedtag.common.synthetic.gradients import Batch, initial_weights


def test_an_expert_walks_by_gradient_descent_on_the_real_graph(graph_of: Callable[..., Graph]) -> None:
    graph = graph_of()
    start = initial_weights("gcn", 6, 5, 3, torch.Generator().manual_seed(0))
    batch = whole_batch(graph.x, graph.adjacency(), graph.train_mask, graph.y)
    way = trajectory(start, batch, 6, 0.3)
    adjacency = torch.zeros(60, 60)
    listed = graph.adjacency()
    adjacency[listed.edge_index[1], listed.edge_index[0]] = listed.weight
    moving = [weight.clone().requires_grad_() for weight in start]
    descent = torch.optim.SGD(moving, lr=0.3)
    for point in way:
        for one, other in zip(point, moving, strict=True):
            torch.testing.assert_close(one, other.detach(), rtol=1e-4, atol=1e-6)
        descent.zero_grad()
        first, first_bias, second, second_bias = moving
        hidden = functional.relu(adjacency @ graph.x @ first + first_bias)
        logits = adjacency @ hidden @ second + second_bias
        functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
        descent.step()


def test_the_distance_of_a_student_is_differentiable_through_its_steps() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([0, 1, 2, 0])
    start, goal = (
        tuple(weight.double() for weight in initial_weights("gcn", 4, 3, 3, generator)) for _ in range(2)
    )
    x = torch.randn(4, 4, generator=generator).double().requires_grad_()

    def apart(features: torch.Tensor) -> torch.Tensor:
        batch = Batch(features, torch.eye(4, dtype=torch.float64), y)
        return relative_distance(walked(start, batch, 4, 0.5), start, goal)

    assert torch.autograd.gradcheck(apart, (x,))


def test_a_student_that_does_not_move_is_at_distance_one() -> None:
    generator = torch.Generator().manual_seed(0)
    start, goal = (initial_weights("sgc", 4, 1, 3, generator) for _ in range(2))
    assert float(relative_distance(start, start, goal)) == 1
    assert float(relative_distance(goal, start, goal)) == 0
