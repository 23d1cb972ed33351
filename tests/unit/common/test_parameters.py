from __future__ import annotations

import pytest
import torch
from torch import nn

from fedtag.common.errors import WireError
from fedtag.common.models.parameters import difference, fingerprint, load_parameters, parameters_of
from fedtag.common.randomness import seeded


def linear() -> nn.Linear:
    return nn.Linear(3, 2)


def test_the_seed_alone_decides_and_the_global_generator_is_untouched() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = seeded(linear, 1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(10)
    assert fingerprint(parameters_of(seeded(linear, 1))) == fingerprint(parameters_of(one))
    assert fingerprint(parameters_of(seeded(linear, 2))) != fingerprint(parameters_of(one))


def test_the_global_generator_survives_a_failure() -> None:
    before = torch.get_rng_state()

    def fail() -> nn.Linear:
        torch.rand(1)
        raise ValueError("no model")

    with pytest.raises(ValueError, match="no model"):
        seeded(fail, 1)
    assert torch.equal(torch.get_rng_state(), before)


def test_parameters_are_copies() -> None:
    model = linear()
    taken = parameters_of(model)
    with torch.no_grad():
        model.weight.add_(1)
    assert not torch.equal(taken["weight"], model.weight)
    assert not taken["weight"].requires_grad
    load_parameters(model, taken)
    assert torch.equal(taken["weight"], model.weight)


def test_buffers_travel_too() -> None:
    assert "running_mean" in parameters_of(nn.BatchNorm1d(2))


def test_other_keys_or_shapes_do_not_load() -> None:
    model = linear()
    with pytest.raises(WireError, match="is absent and should be"):
        load_parameters(model, {"weight": torch.zeros(2, 3)})
    with pytest.raises(WireError, match="and should be"):
        load_parameters(model, {"weight": torch.zeros(2, 4), "bias": torch.zeros(2)})


def test_a_difference_added_to_the_start_gives_the_end() -> None:
    before, after = {"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([4.0, 0.0])}
    assert difference(after, before)["a"].tolist() == [3, -2]


def test_a_fingerprint_sees_names_shapes_types_and_bytes_but_not_order() -> None:
    base = {"a": torch.zeros(2, 2), "b": torch.ones(1)}
    others = [
        {"a": torch.zeros(2, 2), "c": torch.ones(1)},
        {"a": torch.zeros(4), "b": torch.ones(1)},
        {"a": torch.zeros(2, 2, dtype=torch.int32), "b": torch.ones(1)},
        {"a": torch.tensor([[0.0, 0.0], [0.0, -0.0]]), "b": torch.ones(1)},
        {"a": torch.zeros(2, 2)},
    ]
    assert len({fingerprint(one) for one in [base, *others]}) == 6
    assert fingerprint(dict(reversed(base.items()))) == fingerprint(base)
    assert fingerprint({"a": torch.arange(6.0).view(2, 3).T}) == fingerprint(
        {"a": torch.arange(6.0).view(2, 3).T.contiguous()}
    )
