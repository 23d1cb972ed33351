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


def guessing(*labels: int) -> Tally:
    """A model that says class 1 of every node, the first of them most surely."""
    logits = torch.stack([torch.zeros(len(labels)), torch.arange(len(labels), 0, -1).float()], dim=1)
    return tally(
        logits,
        torch.tensor(labels, dtype=torch.int64),
        torch.ones(len(labels), dtype=torch.bool),
        ranked=True,
    )


def test_another_metric_takes_the_place_of_accuracy() -> None:
    one, other = guessing(1, 1, 1, 0), guessing(0, 1)
    both = {"a": one, "b": other}
    assert selection(both, 0.9) == pytest.approx((3 + 1) / 6)
    assert selection(both, 0.9, "balanced-accuracy") == pytest.approx(0.5)
    assert selection(both, 0.9, "auroc") == pytest.approx((4 * 1 + 2 * 0) / 6)
    assert selection(both, 0.9, "auprc") == pytest.approx((4 * 1 + 2 * 0.5) / 6)
    assert selection(both, 0.9, "macro-f1") == pytest.approx((4 * (6 / 7) / 2 + 2 * (2 / 3) / 2) / 6)


def test_a_client_of_one_class_has_no_part_in_a_mean_of_areas() -> None:
    tallies = {"a": guessing(1, 0), "b": guessing(1, 1, 1, 1, 1, 1), "c": guessing()}
    assert selection(tallies, 0.9, "auroc") == 1.0
    assert selection(tallies, 0.9, "balanced-accuracy") == pytest.approx((2 * 0.5 + 6 * 1) / 8)
    assert selection({"b": tallies["b"], "c": tallies["c"]}, 0.9, "auroc") is None


def test_ends_are_trimmed_among_those_that_have_a_value() -> None:
    tallies = {str(place): guessing(1, 0) for place in range(4)} | {"x": guessing(1)}
    # Four have a value, so that none is left out.
    assert selection({**tallies, "0": guessing(0, 1)}, 0.5, "auroc") == pytest.approx(0.75)
    assert selection({**tallies, "x": guessing(0, 1)}, 0.5, "auroc") == pytest.approx(1.0)


def test_spread_is_over_clients() -> None:
    assert spread({"a": right_of(1, 2), "b": right_of(4, 4), "c": right_of(0, 0)}) == pytest.approx(0.25)
    assert spread({"a": right_of(1, 2)}) is None
