from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.numerics.scores import Tally, tally
from fedtag.server.strategies.selection import selection, spread


def right_of(right: int, nodes: int) -> Tally:
    logits = torch.eye(2)[(torch.arange(nodes) >= right).long()]
    return tally(logits, torch.zeros(nodes, dtype=torch.int64), torch.ones(nodes, dtype=torch.bool))


def test_it_is_the_mean_over_clients_by_their_nodes() -> None:
    assert selection({"a": right_of(1, 2), "b": right_of(4, 4)}, 0.5) == pytest.approx((1 + 4) / 6)
    # One of three has at most one half.
    tallies = {"a": right_of(0, 8), "b": right_of(1, 1), "c": right_of(1, 1)}
    assert selection(tallies, 0.5) == pytest.approx(0.5)
    assert selection({"a": right_of(0, 0)}, 0.5) is None
    assert selection({}, 0.5) is None


def test_one_at_each_end_counts_for_nothing_from_five_on() -> None:
    tallies = {str(place): right_of(place, 4) for place in range(5)}
    assert selection(tallies, 0.5) == pytest.approx(0.5)
    four = {name: tallies[name] for name in ("0", "1", "2", "4")}
    assert selection(four, 0.5) == pytest.approx(7 / 16)


@given(st.lists(st.integers(0, 20), min_size=4, max_size=9), st.integers(0, 10**4))
def test_a_liar_moves_it_no_further_than_the_honest_reach(honest: list[int], lie: int) -> None:
    tallies = {f"h{place}": right_of(right, 20) for place, right in enumerate(honest)}
    found = selection({**tallies, "liar": right_of(min(lie, 10**4), 10**4)}, 0.5)
    assert found is not None
    assert min(honest) / 20 - 1e-9 <= found <= max(honest) / 20 + 1e-9


def test_spread_is_over_clients() -> None:
    assert spread({"a": right_of(1, 2), "b": right_of(4, 4), "c": right_of(0, 0)}) == pytest.approx(0.25)
    assert spread({"a": right_of(1, 2)}) is None
