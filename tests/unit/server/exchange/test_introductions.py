from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import WireError
from fedtag.server.exchange.introductions import disagreement, majority, parse_introduction
from fedtag.server.protocol.state import Agreement

A = Agreement(("a", "b"), 8, "encoder bundled")
B = Agreement(("a", "c"), 8, "encoder bundled")
VALID = {"classes": ["a", "b"], "dimension": 8, "features": "encoder bundled"}


def test_a_valid_introduction_is_read() -> None:
    assert parse_introduction({"introduction": {**VALID, "encoded_tokens": 5}}) == A


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "did not introduce itself"),
        ([], "did not introduce itself"),
        ({"classes": []}, "does not name the classes"),
        ({"classes": "ab"}, "does not name the classes"),
        ({"classes": ["a", 1]}, "does not name the classes"),
        ({"classes": ["a", "a"]}, "twice"),
        ({"classes": [str(k) for k in range(2**16 + 1)]}, "more than 65536 classes"),
        ({"dimension": 0}, "what the features are"),
        ({"dimension": True}, "what the features are"),
        ({"dimension": 8.0}, "what the features are"),
        ({"dimension": 10**12}, "what the features are"),
        ({"features": None}, "what the features are"),
    ],
)
def test_malformed_introductions_are_refused(change: Any, message: str) -> None:
    told = {**VALID, **change} if isinstance(change, dict) else change
    with pytest.raises(WireError, match=message):
        parse_introduction({"introduction": told})


@given(st.permutations(["s1", "s2", "s3", "s4", "s5"]))
def test_most_clients_decide_in_any_order(order: list[str]) -> None:
    told = {"s1": A, "s2": B, "s3": B, "s4": A, "s5": B}
    assert majority({client: told[client] for client in order}) == B


@given(st.permutations(["s1", "s2", "s3", "s4"]))
def test_of_equally_many_the_first_name_decides(order: list[str]) -> None:
    told = {"s1": B, "s2": A, "s3": A, "s4": B}
    assert majority({client: told[client] for client in order}) == B


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (B, "agree on one ordered list in meta.json"),
        (Agreement(("b", "a"), 8, "encoder bundled"), "agree on one ordered list"),
        (Agreement(("a", "b"), 9, "encoder bundled"), "use the same encoder everywhere"),
        (Agreement(("a", "b"), 8, "features.npy"), "use the same encoder everywhere"),
    ],
)
def test_a_disagreement_names_the_point_and_the_remedy(own: Agreement, reason: str) -> None:
    assert reason in (disagreement(own, A) or "")
    assert disagreement(own, own) is None
