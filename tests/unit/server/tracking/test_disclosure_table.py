"""Disclosures summed by what was sent."""

from __future__ import annotations

from fedtag.server.tracking.disclosure_table import disclosure_totals
from fedtag.server.tracking.disclosures import Crossing, Disclosure, Protection


def key(number: int, protected: Protection, *crossings: Crossing) -> Disclosure:
    return Disclosure.of(number, "train", "key", crossings, "a key", protected)


def test_rounds_are_counted_once_and_directions_stay_apart() -> None:
    rows = [
        key(3, "none", Crossing("a", "server", 1, 5)),
        key(1, "none", Crossing("a", "server", 1, 5), Crossing("b", "server", 2, 7)),
        key(1, "none", Crossing("server", "a", 1, 9)),
        key(2, "none", Crossing("a", "b", 1, 11)),
        key(2, "encrypted", Crossing("a", "b", 1, 13)),
    ]
    up, down, across, sealed = disclosure_totals(rows)
    assert (up.rounds, up.first_round, up.last_round) == ((1, 3), 1, 3)
    assert (up.count, up.bytes, up.senders, up.to_server) == (4, 17, ("a", "b"), True)
    assert (down.bytes, down.receivers, down.to_server) == (9, ("a",), False)
    assert (across.bytes, across.to_server) == (11, False)
    assert (sealed.bytes, sealed.protected) == (13, "encrypted")
