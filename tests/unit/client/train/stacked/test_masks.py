"""Every draw has a place of its own, and follows from that alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedtag.client.train.stacked.masks import STEP, ClientMasks, mixed
from fedtag.common.models.dropout import dropout
from tests.unit.client.train.stacked.drawn import ahead_of, configured, plans

REFERENCE = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC)
"""The first numbers of SplitMix64 with the seed 0, as its authors' code prints them."""
COLUMNS = 10


def masks(names: str, rows: int, number: int = 3, seed: int = 0) -> ClientMasks:
    found = ClientMasks(seed, list(names), rows, torch.tensor(number))
    found.begin(1)
    return found


def drawn(names: str, rows: int, **own: int) -> Tensor:
    return masks(names, rows, **own).draws(torch.zeros(len(names) * rows, COLUMNS)).view(len(names), rows, -1)


def test_the_numbers_are_those_of_splitmix() -> None:
    found = mixed(STEP * torch.arange(1, 5))
    assert [value % (1 << 64) for value in found.tolist()] == list(REFERENCE)


def test_a_client_draws_the_same_whoever_is_beside_it() -> None:
    alone, among = drawn("b", rows=5), drawn("abcd", rows=9)
    assert torch.equal(alone[0], among[1, :5])


@pytest.mark.parametrize("own", [{"number": 4}, {"seed": 1}])
def test_another_round_or_seed_draws_otherwise(own: dict[str, int]) -> None:
    assert (drawn("ab", 50) == drawn("ab", 50, **own)).float().mean() < 0.01


def test_clients_epochs_and_layers_draw_otherwise() -> None:
    source, x = masks("ab", 50), torch.zeros(100, COLUMNS)
    first, second = source.draws(x), source.draws(x)
    source.begin(2)
    third = source.draws(x)
    source.begin(1)
    assert torch.equal(source.draws(x), first)
    pairs = ((first, second), (first, third), (second, third), (first[:50], first[50:]))
    assert all((one == other).float().mean() < 0.01 for one, other in pairs)


def test_the_share_that_is_dropped_is_the_rate() -> None:
    x = torch.ones(2 * 4000, COLUMNS)
    for rate in (0.1, 0.5, 0.9):
        kept = dropout(x, rate, masks("ab", 4000))
        # Four standard deviations of so many draws.
        assert float((kept == 0).float().mean()) == pytest.approx(rate, abs=4 * 0.5 / len(x.flatten()) ** 0.5)
        assert float(kept.mean()) == pytest.approx(1.0, abs=0.02)
    columns = (dropout(x, 0.5, masks("ab", 4000)) > 0).float()
    assert float(torch.corrcoef(columns.T).fill_diagonal_(0).abs().max()) < 0.05


def test_what_a_client_learns_in_a_round_does_not_depend_on_who_else_is_there() -> None:
    """With dropout: from the same model a client comes to the same, alone and among others."""
    config = configured(method="isolated", model__dropout=0.5)
    alone, among = (ahead_of(config, names=names, averaged=False) for names in ("b", "abcde"))
    (one,), (all_,) = alone.run(plans(1, "b")), among.run(plans(1))
    for name in alone.model:
        torch.testing.assert_close(one[f"own/{name}"][0], all_[f"own/{name}"][1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(one["loss"][0], all_["loss"][1])
