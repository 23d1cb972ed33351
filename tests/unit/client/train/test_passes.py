from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.train.batches import Batching
from fedtag.client.train.passes import hidden_and_logits, logits
from fedtag.common.models.classifier import stages_of
from tests.unit.client.train.graphs import MODELS, examples, graph, model


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize(("nodes", "links"), [(60, 100), (60, 0), (1, 0), (41, 400)])
def test_parts_say_what_the_whole_says(kind: str, layers: int, nodes: int, links: int) -> None:
    """In double precision; with a hub, isolated nodes, without links, of one node."""
    whole, one = examples(graph(nodes, links)), model(kind, layers).double()
    x, adjacency = whole.x.double(), whole.adjacency
    object.__setattr__(adjacency, "weight", adjacency.weight.double())
    wanted = one.hidden_and_logits(x, adjacency)
    for size in (1, 7, 40):
        found = hidden_and_logits(one, x, adjacency, Batching(size, 1))
        for mine, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(mine, theirs.detach(), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(
            logits(one, x, adjacency, Batching(size)), wanted[1], rtol=1e-10, atol=1e-12
        )


@given(st.sampled_from(MODELS), st.integers(0, 99))
def test_a_stage_reads_no_further_than_it_says(kind: str, seed: int) -> None:
    """What changes at a node changes nothing of nodes that are further away."""
    one, adjacency = model(kind), graph(30, 25, seed)
    linked = torch.eye(30).index_put((adjacency.edge_index[1], adjacency.edge_index[0]), torch.ones(()))
    values = (examples(adjacency, seed).x,)
    for stage in stages_of(one):
        moved = tuple(
            value.index_add(0, torch.tensor([3]), torch.ones(1, value.shape[1])) for value in values
        )
        near = (torch.linalg.matrix_power(linked, stage.hops) > 0)[:, 3]
        before, after = stage.apply(values, adjacency), stage.apply(moved, adjacency)
        for mine, theirs in zip(before, after, strict=True):
            assert torch.equal(mine[~near], theirs[~near])
        values = before


def test_the_whole_graph_is_computed_as_ever_and_parts_keep_nothing_for_gradients() -> None:
    whole, one = examples(graph()), model("gcn")
    at_once = logits(one, whole.x, whole.adjacency, Batching())
    assert torch.equal(at_once, one(whole.x, whole.adjacency))
    assert at_once.requires_grad
    assert torch.equal(logits(one, whole.x, whole.adjacency, Batching(60)), at_once)
    assert not logits(one, whole.x, whole.adjacency, Batching(59)).requires_grad
