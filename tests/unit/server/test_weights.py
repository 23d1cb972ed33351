from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.strategies.weights import client_weights

COUNTS = st.dictionaries(st.text(max_size=4), st.integers(0, 10**12), max_size=6)


@given(COUNTS, st.sampled_from(["samples", "uniform"]))
def test_weights_are_shares_of_those_who_train(counts: dict[str, int], kind: str) -> None:
    weights = client_weights(kind, counts)
    trained = {client: count for client, count in counts.items() if count}
    assert list(weights) == sorted(trained)
    if trained:
        assert sum(weights.values()) == pytest.approx(1)
    for client, weight in weights.items():
        share = counts[client] / sum(counts.values()) if kind == "samples" else 1 / len(trained)
        assert weight == pytest.approx(share)


def test_nobody_who_trains_means_no_weight() -> None:
    assert client_weights("samples", {"a": 0}) == {}
    assert client_weights("uniform", {}) == {}
