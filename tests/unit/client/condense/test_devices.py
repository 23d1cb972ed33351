"""Tensors that the numerics create follow the device of their inputs.

With a default device that is not the inputs' own, a tensor created without a device cannot be combined
with them, so that a forgotten `device=` fails on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from fedtag.client.condense.core.members import CorePolicy, pseudo_labels, select_core
from fedtag.client.condense.core.prior import evidence_prior
from fedtag.client.condense.core.topology import rebuild_topology
from fedtag.client.methods.dance.neighbours import one_hop, prediction_entropy, prefilter, two_hop
from fedtag.client.methods.dance.selection import (
    attention,
    choose,
    chunk_candidates,
    context,
    gather_scores,
    weighted_sum,
)
from fedtag.common.numerics.ragged import Ragged, merge, segment_softmax, stack
from fedtag.common.numerics.self_expression import full_support, self_expression


@pytest.fixture(autouse=True)
def _foreign_default_device() -> Iterator[None]:
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


def random(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, device="cpu", generator=torch.Generator("cpu").manual_seed(1))


@pytest.mark.parametrize("policy", ["top", "gumbel", "coverage", "rotate", "random"])
def test_core(policy: CorePolicy) -> None:
    probabilities = random(60, 3).softmax(1)
    train = torch.where(random(60) < 0.3, 1, -1)
    labels, _ = pseudo_labels(probabilities, train, 0.4)
    generator = np.random.default_rng(0)
    for ratio in (0.1, 0.9):
        core = select_core(
            random(60, 4), labels, train >= 0, num_classes=3, ratio=ratio, policy=policy, generator=generator
        )
        assert core.nodes.device.type == core.labels.device.type == "cpu"


def test_evidence_and_topology() -> None:
    edges = (random(50, 50) < 0.1).nonzero().T
    core = (random(50) < 0.5).nonzero().flatten()
    far = prefilter(two_hop(edges, 50, cap=5, rows=core), prediction_entropy(random(50, 3)), 3)
    hops = [Ragged.singletons(core), one_hop(edges, 50).select(core), far]
    scores = [gather_scores(random(len(core), 4), random(50, 4), hop) for hop in hops]
    supports = [choose(s, hop, 2) for s, hop in zip(scores, hops, strict=True)]
    weights = [attention(s, hop, m) for s, hop, m in zip(scores, hops, supports, strict=True)]
    assert context(random(3), stack(*hops), torch.cat(weights), random(50, 4)).device.type == "cpu"
    selected = merge(*(hop.filter(m) for hop, m in zip(hops, supports, strict=True)))
    sizes = (random(51) * 4).long() + 1
    chunks = chunk_candidates(selected, sizes.cumsum(0) - sizes[0])
    softmax = segment_softmax(chunks.index.float(), chunks.row, chunks.ptr)
    vectors = random(int(sizes.sum()), 4)
    x = weighted_sum(softmax, vectors, chunks)
    for beta in (0.1, 90.0):
        topology = rebuild_topology(x, evidence_prior(chunks, vectors), alpha=8.0, beta=beta)
        assert topology.adjacency.weight.device.type == "cpu"


def test_wide_support() -> None:
    support = full_support(80, "cpu")
    result = self_expression(random(80, 4), support, support >= 0, random(80, 79), alpha=8.0, beta=1.0)
    assert result.coefficients.device.type == "cpu"
