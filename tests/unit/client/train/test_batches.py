from __future__ import annotations

import itertools
import threading
import time

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedtag.client.train.batches import WHOLE, Batches, Batching, in_batches
from fedtag.client.train.examples import Examples
from fedtag.common.errors import ConfigError
from fedtag.common.graph import Adjacency
from fedtag.common.models.classifier import NodeClassifier, hops_of
from fedtag.common.numerics.ahead import ahead
from tests.unit.client.train.graphs import MODELS, examples, graph, model

CPU = torch.device("cpu")


def batches(of: Examples, size: int, fan_out: int = 0, hops: int = 2, seed: int = 0) -> Batches:
    return Batches(of, Batching(size, fan_out), hops, CPU, torch.Generator().manual_seed(seed))


def ids(whole: Examples, part: Examples) -> Tensor:
    """Which nodes of the whole a part has, by their features."""
    found = (whole.x.unsqueeze(0) == part.x.unsqueeze(1)).all(2).nonzero()
    assert torch.equal(found[:, 0], torch.arange(len(part.x)))
    return found[:, 1]


def doubled(one: Examples) -> Examples:
    adjacency = one.adjacency
    wide = Adjacency(adjacency.edge_index, adjacency.weight.double(), adjacency.num_nodes)
    return Examples(one.x.double(), wide, one.y, one.mask, one.weight)


def gradients(one: NodeClassifier, loss: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(one.parameters()), allow_unused=True)
    return [torch.zeros(()) if value is None else value for value in found]


@pytest.mark.parametrize("kind", MODELS)
def test_with_all_neighbours_a_batch_has_the_gradient_of_the_whole_graph_for_its_nodes(kind: str) -> None:
    """The oracle sees no part: the whole graph's logits, and the cross-entropy of the batch's nodes alone."""
    whole, one = doubled(examples(graph())), model(kind).double()
    for part in batches(whole, 7, hops=hops_of(one)).epochs(1):
        targets = ids(whole, part)[part.mask]
        wanted = functional.cross_entropy(one(whole.x, whole.adjacency)[targets], whole.y[targets])
        found = part.loss(one(part.x, part.adjacency))
        torch.testing.assert_close(found, wanted)
        for mine, theirs in zip(gradients(one, found), gradients(one, wanted), strict=True):
            torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_every_labelled_node_is_in_one_batch_of_each_epoch(size: int) -> None:
    whole = examples(graph())
    labelled = whole.mask.nonzero().squeeze(1).tolist()
    made = batches(whole, size, 2)
    assert made.steps == -(-len(labelled) // size)
    parts = list(made.epochs(3))
    assert len(parts) == 3 * made.steps
    targets = [ids(whole, part)[part.mask].tolist() for part in parts]
    for first in range(0, len(targets), made.steps):
        epoch = targets[first : first + made.steps]
        assert sorted(itertools.chain(*epoch)) == labelled
        assert max(map(len, epoch)) - min(map(len, epoch)) <= 1
        assert max(map(len, epoch)) <= size
    if size < len(labelled):
        assert targets[: made.steps] != targets[made.steps : 2 * made.steps]


def test_a_batch_has_labels_and_weights_of_its_own_nodes() -> None:
    whole = examples(graph()).balanced
    assert whole.weight is not None
    for part in batches(whole, 5, 2).epochs(1):
        rows = ids(whole, part)
        assert torch.equal(part.y, whole.y[rows])
        assert part.weight is not None
        assert torch.equal(part.weight, whole.weight[rows] * part.mask)
        assert not (part.mask & ~whole.mask[rows]).any()


def test_the_same_generator_makes_the_same_batches() -> None:
    whole = examples(graph())
    one, again, other = (list(batches(whole, 5, 2, seed=seed).epochs(2)) for seed in (3, 3, 4))
    assert all(torch.equal(mine.x, theirs.x) for mine, theirs in zip(one, again, strict=True))
    assert any(mine.x.shape != theirs.x.shape for mine, theirs in zip(one, other, strict=True))


def plain_loss(one: nn.Module, seen: list[int]) -> object:
    def of(part: Examples) -> object:
        seen.append(len(part.x))
        return lambda: part.loss(one(part.x, part.adjacency))

    return of


def test_steps_are_epochs_times_batches_and_one_an_epoch_where_the_graph_is_small() -> None:
    whole, one, generator = examples(graph()), model("gcn"), torch.Generator().manual_seed(0)
    labelled, seen = int(whole.mask.sum()), list[int]()
    loss, steps = in_batches(plain_loss(one, seen), one, whole, 3, Batching(8, 2), CPU, generator)
    assert steps == 3 * -(-labelled // 8)
    assert all(bool(loss().isfinite()) for _ in range(steps))
    assert max(seen) < len(whole.x)
    for batching in (WHOLE, Batching(len(whole.x), 2)):
        seen.clear()
        _, steps = in_batches(plain_loss(one, seen), one, whole, 3, batching, CPU, generator)
        assert (steps, seen) == (3, [len(whole.x)])


def test_examples_of_another_kind_stay_whole() -> None:
    loss, steps = in_batches(
        lambda one: one, nn.Linear(1, 1), lambda: "loss", 4, Batching(1), CPU, torch.Generator()
    )
    assert (loss(), steps) == ("loss", 4)


def test_a_model_that_says_no_stages_is_refused_with_the_remedy() -> None:
    class Plain(NodeClassifier):
        def hidden_and_logits(self, x: Tensor, adjacency: Adjacency, generator: object = None) -> object:
            return x, x

    for one in (Plain(), nn.Linear(1, 1)):
        with pytest.raises(ConfigError, match=r"cannot be computed in batches.*train\.batch-size = 0"):
            in_batches(lambda part: part, one, examples(graph()), 1, Batching(8), CPU, torch.Generator())


def test_the_next_batch_is_made_while_one_is_in_use() -> None:
    """And by another thread, in the same order, all of them once."""
    made, makers = list[int](), set[int]()

    def items() -> object:
        for number in range(5):
            made.append(number)
            makers.add(threading.get_ident())
            yield number

    found = []
    for item in ahead(items()):
        found.append(item)
        deadline = time.monotonic() + 5
        while len(made) < min(item + 2, 5) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert made == list(range(min(item + 2, 5)))
    assert found == list(range(5))
    assert threading.get_ident() not in makers


def test_what_fails_in_the_making_is_raised_where_it_is_used() -> None:
    def items() -> object:
        yield 1
        raise MemoryError("none left")

    coming = ahead(items())
    assert next(coming) == 1
    with pytest.raises(MemoryError, match="none left"):
        next(coming)
