"""Rounds ahead are the rounds one by one, on any device, captured or not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedtag.common.models.spec import BACKBONES
from tests.unit.client.train.stacked.drawn import ahead_of, configured, plans

STACKING = [name for name, spec in BACKBONES.usable().items() if spec.stacks]
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def trained(rounds: list[dict[str, Tensor]], model: dict[str, Tensor]) -> dict[str, Tensor]:
    """All that came of some rounds."""
    found = {f"{place}/{name}": value for place, one in enumerate(rounds) for name, value in one.items()}
    return {**found, **{f"model/{name}": value.cpu() for name, value in model.items()}}


def check_close(one: dict[str, Tensor], other: dict[str, Tensor], most: float) -> None:
    assert one.keys() == other.keys()
    # Counts move by a node where rounding decides which class or bin it has.
    told = [name for name in one if "/scores/" not in name and "/cut" not in name]
    torch.testing.assert_close(
        [one[name] for name in told], [other[name] for name in told], rtol=most, atol=most
    )


def test_rounds_may_be_asked_for_in_any_portions() -> None:
    config = configured()
    at_once, one_by_one = ahead_of(config), ahead_of(config)
    together = at_once.run(plans(5))
    portions = [one for number in range(1, 6) for one in one_by_one.run(plans(1, first=number))]
    for one, other in zip(together, portions, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_round_begins_with_what_was_set() -> None:
    ahead = ahead_of(configured())
    first = ahead.run(plans(3))
    again = {name: first[1][f"received/{name}"] for name in ahead.model}
    ahead.set(again)
    second = ahead.run(plans(2, first=2))
    assert all(torch.equal(value, second[0][name]) for name, value in first[1].items())


def test_an_average_is_scored_in_place_of_the_model() -> None:
    ahead = ahead_of(configured())
    plain = ahead.run(plans(2))[1]
    received = {name: plain[f"received/{name}"] for name in ahead.model}
    ahead.set(received, scored={name: torch.zeros_like(value) for name, value in received.items()})
    (averaged,) = ahead.run(plans(1, first=2))
    for name, value in averaged.items():
        assert torch.equal(value, plain[name]) != name.startswith("scores/graph/"), name


def test_a_client_that_does_not_train_keeps_its_own_model() -> None:
    ahead = ahead_of(configured(method="isolated"), averaged=False)
    before = {name: value.clone() for name, value in ahead.model.items()}
    (found,) = ahead.run(plans(1))
    for name, value in before.items():
        assert torch.equal(found[f"own/{name}"][3], value[3])
        assert not torch.equal(found[f"own/{name}"], value)
        assert torch.equal(found[f"own/{name}"], ahead.model[name])


@on_cuda
@pytest.mark.parametrize("backbone", STACKING)
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_captured_round_is_the_round_itself(backbone: str, optimizer: str) -> None:
    config = configured(model__backbone=backbone, train__optimizer=optimizer)
    captured, eager = (ahead_of(config, "cuda", captured) for captured in (True, False))
    first, second = captured.run(plans(6)), eager.run(plans(6))
    check_close(trained(first, captured.model), trained(second, eager.model), 1e-5)


@on_cuda
@pytest.mark.parametrize("backbone", STACKING)
def test_a_device_comes_to_what_the_host_comes_to(backbone: str) -> None:
    """With dropout, whose draws follow from their places alone."""
    config = configured(model__backbone=backbone)
    device, host = ahead_of(config, "cuda", captured=True), ahead_of(config)
    first, second = device.run(plans(6)), host.run(plans(6))
    check_close(trained(first, device.model), trained(second, host.model), 1e-3)


@on_cuda
@pytest.mark.parametrize("backbone", STACKING)
@pytest.mark.parametrize("averaged", [True, False])
def test_two_runs_on_a_device_are_equal_to_the_bit(backbone: str, averaged: bool) -> None:
    config = configured(model__backbone=backbone)

    def run() -> dict[str, Tensor]:
        ahead = ahead_of(config, "cuda", captured=True, averaged=averaged)
        return trained([*ahead.run(plans(4)), *ahead.run(plans(4, first=5))], ahead.model)

    one, other = run(), run()
    assert one.keys() == other.keys()
    assert [name for name, value in one.items() if not torch.equal(value, other[name])] == []
