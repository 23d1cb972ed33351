from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.parts.neighbour_generator.impairment import impaired
from fedtag.client.parts.neighbour_generator.losses import count_loss, feature_loss, generator_loss, nearest
from fedtag.common.graph import Graph
from fedtag.common.numerics.ragged import Ragged
from fedtag.common.parts.neighbour_generator.model import NeighbourGenerator, owners

Make = Callable[..., Graph]


@given(
    widths=st.lists(st.integers(0, 6), min_size=1, max_size=8),
    block=st.sampled_from([1, 7, 24, 1 << 22]),
    seed=st.integers(0, 99),
)
def test_each_generated_neighbour_is_matched_with_the_nearest_of_its_owner(
    widths: list[int], block: int, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    hidden_x = torch.randn(9, 3, dtype=torch.float64, generator=draw)
    sets = [torch.randperm(9, generator=draw)[:width].sort().values for width in widths]
    lacking = Ragged(torch.tensor([0, *widths]).cumsum(0), torch.cat(sets))
    owner = torch.tensor([row for row, width in enumerate(widths) for _ in range(min(width, 3))]).long()
    features = torch.randn(len(owner), 3, dtype=torch.float64, generator=draw)
    found = nearest(features, owner, lacking, hidden_x, block)
    for place, row in enumerate(owner.tolist()):
        distances = {one: float((features[place] - hidden_x[one]).pow(2).sum()) for one in sets[row].tolist()}
        assert int(found[place]) == min(distances, key=lambda one: distances[one])


def test_the_first_of_equal_neighbours_is_matched() -> None:
    lacking = Ragged(torch.tensor([0, 3]), torch.tensor([0, 1, 2]))
    hidden_x = torch.tensor([[9.0], [1.0], [1.0]])
    assert nearest(torch.tensor([[1.5]]), torch.tensor([0]), lacking, hidden_x).tolist() == [1]


def test_counts_are_compared_by_smooth_absolute_differences() -> None:
    lacking = Ragged(torch.tensor([0, 0, 2, 9]), torch.arange(9))
    counts = torch.tensor([0.5, 4.0, 4.5], dtype=torch.float64)
    # |0.5 − 0| and |4.5 − 5| are below 1: halves of squares. |4 − 2| is above: less a half.
    assert float(count_loss(counts, lacking, 5)) == pytest.approx((0.125 + 1.5 + 0.125) / 3)


def test_the_loss_of_features_is_a_sum_over_neighbours_and_a_mean_over_nodes() -> None:
    features, targets = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    assert float(feature_loss(features, targets, 4)) == pytest.approx((4 + 9) / 4)


def test_the_whole_loss_is_that_of_loops(make_graph: Make) -> None:
    graph = make_graph(nodes=30, edges=90)
    task = impaired(graph, 0.4, torch.ones(30, dtype=torch.bool), torch.Generator().manual_seed(2))
    torch.manual_seed(0)
    model = NeighbourGenerator(4, 6)
    told = generator_loss(model, task, 2, torch.Generator().manual_seed(5))
    z = model.encoded(task.x, task.adjacency)
    counts, noise = model.counts(z), torch.Generator().manual_seed(5)
    lacks = [task.lacking.index[task.lacking.ptr[v] : task.lacking.ptr[v + 1]] for v in range(len(z))]
    drawn = [min(2, round(float(counts[v].detach()))) if len(lacks[v]) else 0 for v in range(len(z))]
    assert 0 < sum(drawn) < 2 * len(z)
    draws = iter(torch.randn(sum(drawn), 6, generator=noise))
    by_count = by_feature = torch.zeros(())
    for v in range(len(z)):
        gap = (counts[v] - min(len(lacks[v]), 2)).abs()
        by_count = by_count + (gap**2 / 2 if gap < 1 else gap - 0.5)
        for _ in range(drawn[v]):
            generated = model.feature(z[v] + next(draws))
            by_feature = by_feature + min((generated - task.hidden_x[u]).pow(2).sum() for u in lacks[v])
    scale = sum(float(x.pow(2).sum()) for x in task.x) / len(z)
    torch.testing.assert_close(told, (by_count + by_feature / scale) / len(z))


def test_gradients_are_derivatives(make_graph: Make) -> None:
    graph = make_graph(nodes=16, edges=50)
    task = impaired(graph, 0.4, torch.ones(16, dtype=torch.bool), torch.Generator().manual_seed(0))
    task = type(task)(task.x.double(), task.adjacency, task.lacking, task.hidden_x.double())
    torch.manual_seed(1)
    model = NeighbourGenerator(4, 3).double()
    names = [name for name, _ in model.named_parameters()]

    def loss(*values: torch.Tensor) -> torch.Tensor:
        whole = _Called(model)
        return torch.func.functional_call(
            whole, {f"model.{name}": value for name, value in zip(names, values, strict=True)}, (task,)
        )

    values = [value.detach().clone().requires_grad_() for value in model.parameters()]
    assert float(loss(*values).detach()) > 0
    assert torch.autograd.gradcheck(loss, values)


class _Called(torch.nn.Module):
    """The loss as a module, whose parameters can be replaced in one call."""

    def __init__(self, model: NeighbourGenerator) -> None:
        super().__init__()
        self.model = model

    def forward(self, task: object) -> torch.Tensor:
        return generator_loss(self.model, task, 3, torch.Generator().manual_seed(4))  # type: ignore[arg-type]


@pytest.mark.parametrize(("nodes", "edges"), [(0, 0), (1, 0), (5, 0), (3, 6)])
def test_the_loss_is_finite_on_the_smallest_graphs(make_graph: Make, nodes: int, edges: int) -> None:
    graph = make_graph(nodes=nodes, edges=edges)
    task = impaired(graph, 0.5, torch.ones(nodes, dtype=torch.bool), torch.Generator().manual_seed(0))
    blank = type(task)(
        torch.zeros_like(task.x), task.adjacency, task.lacking, torch.zeros_like(task.hidden_x)
    )
    for one in (task, blank):
        model = NeighbourGenerator(4, 3)
        loss = generator_loss(model, one, 5, torch.Generator().manual_seed(0))
        loss.backward()
        assert bool(torch.isfinite(loss))
        assert all(value.grad is None or bool(value.grad.isfinite().all()) for value in model.parameters())


def test_training_finds_what_is_lacking_where_the_graph_tells_it() -> None:
    """Nodes with feature (1, 0) lack two neighbours like (0, 3), nodes with (−1, 0) none."""
    side = torch.arange(40) % 2 == 0
    x = torch.where(side.unsqueeze(1), torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0]))
    hidden = torch.tensor([[0.0, 3.0]]).repeat(40, 1)
    wanting = side.nonzero().flatten()
    lacking = Ragged.from_pairs(wanting.repeat(2), torch.arange(40), 40)
    task = impaired(_without_edges(x), 0.0, torch.ones(40, dtype=torch.bool), torch.Generator())
    task = type(task)(task.x, task.adjacency, lacking, hidden)
    torch.manual_seed(0)
    model, noise = NeighbourGenerator(2, 8), torch.Generator().manual_seed(0)
    stepper = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(400):
        stepper.zero_grad()
        generator_loss(model, task, 5, noise).backward()
        stepper.step()
    z = model.encoded(task.x, task.adjacency)
    assert torch.equal(owners(model.counts(z), 5), wanting.repeat_interleave(2))
    generated = model.features(z, wanting, noise)
    assert float((generated.detach() - hidden[0]).square().sum(1).mean()) < 0.5


def _without_edges(x: torch.Tensor) -> Graph:
    blank = torch.zeros(len(x), dtype=torch.bool)
    return Graph(
        x, torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), blank.long(), blank, blank, blank, 1
    )
