from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal, kl_divergence
from torch.nn import functional

from fedtag.client.methods.fedgc.bottleneck import Encoder, divergence, transformed
from fedtag.common.errors import DivergenceError
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.models.backbones.gcn import GCN
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.randomness import torch_generator

NODES, DIM, CLASSES = 30, 6, 3


class Case:
    """A small graph whose classes a frozen classifier can tell, and a call with everything at its default."""

    def __init__(self, seed: int = 0) -> None:
        generator = torch_generator(seed, "case")
        self.y = torch.arange(NODES) % CLASSES
        self.x = torch.randn(NODES, DIM, generator=generator) + 2 * functional.one_hot(self.y, DIM)
        pairs = torch.randint(NODES, (2, 60), generator=generator)
        pairs = pairs[:, (pairs[0] != pairs[1]) & (self.y[pairs[0]] == self.y[pairs[1]])]
        self.adjacency = normalised_adjacency(torch.cat([pairs, pairs.flip(0)], 1), NODES)
        torch.manual_seed(seed)
        self.teacher = Backbone(GCN, DIM, 8, CLASSES, 2, 0.5)
        adam = torch.optim.Adam(self.teacher.parameters(), lr=0.05)
        for _ in range(60):
            adam.zero_grad(set_to_none=True)
            functional.cross_entropy(self.teacher(self.x, self.adjacency), self.y).backward()
            adam.step()
        adam.zero_grad(set_to_none=True)

    def classify(self, z: Tensor) -> Tensor:
        logits: Tensor = self.teacher(z, self.adjacency)
        return logits

    def run(self, **changes: object) -> Tensor:
        arguments: dict[str, object] = {
            "x": self.x,
            "adjacency": self.adjacency,
            "classify": self.classify,
            "seen": torch.ones(NODES, dtype=torch.bool),
            "compression": 1e-2,
            "epochs": 40,
            "rate": 0.02,
            "generator": torch_generator(0, "bottleneck"),
        }
        return transformed(**{**arguments, **changes})  # type: ignore[arg-type]

    def right(self, z: Tensor) -> float:
        """How much of all nodes the classifier tells by these features."""
        return float((self.classify(z).argmax(1) == self.y).double().mean())


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


@pytest.mark.parametrize("centre", [-40.0, -16.0, -14.0, -2.0, 0.0, 3.0])
def test_the_divergence_is_that_of_the_distributions(centre: float) -> None:
    generator = torch_generator(1, "divergence")
    mean = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    raw = centre + torch.randn(7, 5, generator=generator, dtype=torch.float64)
    encoded = Independent(Normal(mean, functional.softplus(raw)), 1)
    prior = Independent(Normal(torch.zeros_like(mean), torch.ones_like(mean)), 1)
    torch.testing.assert_close(divergence(mean, raw), kl_divergence(encoded, prior))


def test_the_divergence_and_its_derivatives_are_finite_where_deviations_vanish() -> None:
    raw = torch.tensor([[-200.0, -15.0, 0.0, 200.0]], requires_grad=True)
    value = divergence(torch.zeros(1, 4), raw).sum()
    value.backward()
    assert bool(torch.isfinite(value))
    assert raw.grad is not None
    # d/dr of −ln softplus(r) is −1 far below zero, where σ² weighs nothing.
    assert raw.grad[0, 0] == pytest.approx(-1.0)
    assert bool(torch.isfinite(raw.grad).all())


def test_derivatives_of_the_whole_objective_are_those_of_differences(case: Case) -> None:
    x, weights = case.x.double(), Encoder(DIM, torch_generator(2, "encoder"), torch.float64)
    adjacency = Adjacency(case.adjacency.edge_index, case.adjacency.weight.double(), NODES)
    teacher = Backbone(GCN, DIM, 8, CLASSES, 2, 0.5).double()
    noise = torch.randn(NODES, DIM, generator=torch_generator(3, "noise"), dtype=torch.float64)

    def objective(first: Tensor, second: Tensor) -> Tensor:
        mean, raw = torch.func.functional_call(weights, {"first": first, "second": second}, (x, adjacency))
        logits = teacher(mean + functional.softplus(raw) * noise, adjacency)
        return functional.cross_entropy(logits, case.y) + 0.1 * divergence(mean, raw).mean()

    assert torch.autograd.gradcheck(objective, (weights.first, weights.second))


def test_the_encoder_is_equation_nine(case: Case) -> None:
    encoder = Encoder(DIM, torch_generator(4, "encoder"))
    mean, raw = encoder(case.x, case.adjacency)
    dense = torch.zeros(NODES, NODES)
    source, target = case.adjacency.edge_index
    dense.index_put_((target, source), case.adjacency.weight, accumulate=True)
    hidden = torch.relu(case.x @ encoder.first.T) @ encoder.second.T
    expected = dense @ hidden
    torch.testing.assert_close(torch.cat([mean, raw], 1), expected)


def test_one_step_is_that_of_adam_on_the_objective(case: Case) -> None:
    """One step by torch itself, from the same draws, must agree."""
    found = case.run(epochs=1)
    generator = torch_generator(0, "bottleneck")
    encoder = Encoder(DIM, generator)
    adam = torch.optim.Adam(encoder.parameters(), lr=0.02)

    size = float(torch.linalg.vector_norm(case.x)) / (NODES * DIM) ** 0.5

    def drawn() -> tuple[Tensor, Tensor]:
        mean, raw = encoder(case.x / size, case.adjacency)
        noise = torch.empty(NODES, DIM).normal_(generator=generator)
        normal = Normal(mean, functional.softplus(raw))
        kl = kl_divergence(normal, Normal(0.0, 1.0)).sum(1).mean()
        return size * (mean + functional.softplus(raw) * noise), kl

    z, kl = drawn()
    opinion = case.classify(case.x).softmax(1).detach()
    apart = kl_divergence(Categorical(probs=opinion), Categorical(logits=case.classify(z))).mean()
    (apart + 1e-2 * kl).backward()
    adam.step()
    torch.testing.assert_close(found, drawn()[0].detach())


def test_it_learns_and_compresses(case: Case) -> None:
    plain = case.run(compression=0.0, epochs=150)
    assert case.right(plain) > 0.8
    strong = case.run(compression=10.0, epochs=150)
    # Nothing but the prior is left: no mean, the deviation that of the features about zero.
    size = float(case.x.square().mean().sqrt())
    assert float(strong.mean().abs()) < 0.3 * size
    assert float(strong.std()) == pytest.approx(size, rel=0.2)


def test_it_is_determined_by_its_generator(case: Case) -> None:
    assert torch.equal(case.run(), case.run())
    other = case.run(generator=torch_generator(1, "bottleneck"))
    assert not torch.equal(case.run(), other)


def test_the_classifier_and_the_features_stay_as_they_are() -> None:
    case = Case()
    before = [parameter.detach().clone() for parameter in case.teacher.parameters()]
    features = case.x.clone()
    case.run()
    assert all(parameter.grad is None for parameter in case.teacher.parameters())
    assert all(map(torch.equal, before, case.teacher.parameters()))
    assert torch.equal(case.x, features)


def test_nodes_that_are_not_seen_weigh_nothing(case: Case) -> None:
    """What is unseen and has no link changes nothing for the others, whatever its features are."""
    lone = torch.cat([case.x, torch.full((1, DIM), 9.0)]), torch.cat([case.x, torch.full((1, DIM), -9.0)])
    links = case.adjacency.edge_index_without_loops
    adjacency = normalised_adjacency(links, NODES + 1)
    grown = {
        "seen": torch.arange(NODES + 1) < NODES,
        "adjacency": adjacency,
        "classify": lambda z: case.teacher(z, adjacency),
    }
    one, two = (case.run(x=x, **grown)[:NODES] for x in lone)
    assert torch.equal(one, two)


def test_without_anything_to_learn_from_features_stay_what_they_are(case: Case) -> None:
    assert torch.equal(case.run(seen=torch.zeros(NODES, dtype=torch.bool)), case.x)


def test_it_says_what_the_classifier_thinks_right_or_wrong(case: Case) -> None:
    """Of a node that the classifier takes for another class, z says that class: it cannot know a label by heart."""
    wrong = case.x.clone()
    wrong[0] = 3 * functional.one_hot((case.y[0] + 1) % CLASSES, DIM)
    lone = normalised_adjacency(torch.empty(2, 0, dtype=torch.long), NODES)

    def classify(z: Tensor) -> Tensor:
        logits: Tensor = case.teacher(z, lone)
        return logits

    opinion = classify(wrong).argmax(1)
    assert opinion[0] != case.y[0]
    z = case.run(x=wrong, adjacency=lone, classify=classify, epochs=300, compression=0.0)
    assert classify(z).argmax(1)[0] == opinion[0]


def test_the_size_of_the_features_goes_in_and_comes_out_again(case: Case) -> None:
    """By a power of two, which rounds nothing: the same features in other units are transformed alike."""
    small = case.run(x=case.x / 64, classify=lambda z: case.classify(64 * z))
    assert torch.equal(64 * small, case.run())


def test_features_that_are_all_zero_have_no_size(case: Case) -> None:
    assert bool(torch.isfinite(case.run(x=torch.zeros_like(case.x))).all())


def test_divergence_names_the_setting_to_lower(case: Case) -> None:
    with pytest.raises(DivergenceError, match="bottleneck-rate"):
        case.run(x=case.x * float("inf"))
