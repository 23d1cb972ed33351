"""Disclosures summed by what was sent."""

from __future__ import annotations

from fedtag.server.tracking.disclosure_table import disclosure_totals
from fedtag.server.tracking.rows import Disclosure


def test_rounds_are_counted_once_and_directions_stay_apart() -> None:
    rows = [
        Disclosure(3, "a", "server", "key", 5, "a key", "none"),
        Disclosure(1, "a", "server", "key", 5, "a key", "none"),
        Disclosure(1, "b", "server", "key", 7, "a key", "none", count=2),
        Disclosure(1, "server", "a", "key", 9, "a key", "none"),
        Disclosure(2, "a", "b", "key", 11, "a key", "none"),
        Disclosure(2, "a", "b", "key", 13, "a key", "encrypted"),
    ]
    up, down, across, sealed = disclosure_totals(rows)
    assert (up.rounds, up.first_round, up.last_round) == ((1, 3), 1, 3)
    assert (up.count, up.bytes, up.senders, up.to_server) == (4, 17, ("a", "b"), True)
    assert (down.bytes, down.receivers, down.to_server) == (9, ("a",), False)
    assert (across.bytes, across.to_server) == (11, False)
    assert (sealed.bytes, sealed.protected) == (13, "encrypted")
