"""A sum that is repeated must not show the difference to the first one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fedtag.client.secure.balance import parts_digest
from fedtag.common.errors import ProtocolError

if TYPE_CHECKING:
    from tests.unit.client.secure.conftest import Sites

EVEN = dict.fromkeys("abcd", 0.25)
VECTOR = np.ones(5)
TOLD = bytes(32)


def open_round(sites: Sites, index: int, survivors: list[str], occasion: str) -> None:
    for name in "abcd":
        sites[name].mask(index, VECTOR, EVEN, TOLD, occasion)
    for name in survivors:
        sites[name].release({"opened": [], "index": index, "survivors": survivors, "signatures": None})


def test_the_same_round_is_opened_over_the_same_members_only(sites: Sites) -> None:
    sites.joined(4)
    open_round(sites, 0, ["a", "b", "c", "d"], "round 3, train")
    open_round(sites, 1, ["a", "b", "c", "d"], "round 3, train")
    with pytest.raises(ProtocolError, match="round 3, train was opened over other members before"):
        open_round(sites, 2, ["a", "b", "c"], "round 3, train")
    open_round(sites, 3, ["a", "b", "c"], "round 4, train")


def test_a_new_block_does_not_forget_what_was_opened(sites: Sites) -> None:
    sites.joined(1)
    open_round(sites, 0, ["a", "b", "c"], "round 1, train")
    sites.joined(1)
    with pytest.raises(ProtocolError, match="a second one would show the difference"):
        open_round(sites, 0, ["a", "b", "c", "d"], "round 1, train")


def test_parts_tell_shares_apart_and_ignore_scale() -> None:
    weights = {"a": 0.2, "b": 0.3, "c": 0.5}
    double = {name: 2 * weight for name, weight in weights.items()}
    assert parts_digest(weights, "abc") == parts_digest(double, "cba")
    assert parts_digest(weights, "abc") != parts_digest(weights, "ab")
    assert parts_digest(weights, "abc") != parts_digest({**weights, "a": 0.3, "b": 0.2}, "abc")
    assert parts_digest(dict.fromkeys("ab", 0.0), "ab") != parts_digest(dict.fromkeys("ab", 0.0), "a")


def test_a_roster_asks_for_most_of_its_institutions(sites_of: Callable[..., Sites]) -> None:
    sites = sites_of("a", "b", "c", "d", "e", roster=True)
    plan = sites.plan(1)
    request = plan.as_json()
    few = {name: keys for name, keys in request["members"].items() if name in "abc"}
    with pytest.raises(
        ProtocolError, match="too small for the roster of a, which has 5 institutions: 4 must"
    ):
        sites["a"].set_up({**request, "members": few})
