from __future__ import annotations

from typing import Any

import pytest

from fedtag.common.errors import WireError
from fedtag.server.exchange.claims import check_claims, claimed, overclaiming

SIZES = {"nodes": 10, "train_nodes": 4, "val_nodes": 2, "test_nodes": 3}
STATED = {"a": SIZES, "b": SIZES}


@pytest.mark.parametrize(
    "told", [{}, {"sizes": SIZES}, {"sizes": {**SIZES, "val_nodes": 1}}, {"introduction": {"classes": []}}]
)
def test_what_was_stated_passes(told: dict[str, Any]) -> None:
    check_claims("a", told, STATED)
    check_claims("new", {"sizes": {**SIZES, "nodes": 11}}, STATED)


@pytest.mark.parametrize("name", SIZES)
def test_other_counts_are_refused_with_both(name: str) -> None:
    told = {"sizes": {**SIZES, name: SIZES[name] + 1}}
    words = f"it stated {name.replace('_', ' ')} = {SIZES[name]} and states {SIZES[name] + 1} now"
    with pytest.raises(WireError, match=words):
        check_claims("a", told, STATED)


def test_another_commitment_is_refused() -> None:
    told = {"introduction": {"committed": "ab"}}
    assert claimed(told) == {"committed": "ab"}
    check_claims("a", told, {"a": {"committed": "ab"}})
    with pytest.raises(WireError, match="it stated committed = cd and states ab now"):
        check_claims("a", told, {"a": {"committed": "cd"}})


def test_who_states_nearly_all_of_a_split_is_named_with_the_remedy() -> None:
    stated = {**STATED, "c": {**SIZES, "val_nodes": 1000}, "d": {"committed": "ab"}}
    (reason,) = overclaiming(stated).values()
    assert reason.startswith("it states 1000 of the 1004 validation nodes of 3 clients")
    assert "divide them among several sites" in reason
    assert overclaiming(STATED) == {}
