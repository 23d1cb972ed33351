"""A site that says that it works, and never answers, must not hold a round for longer than its time.

The control believes what it says.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.common.wire.signs import Sign
from fedtag.server.exchange import exchange as exchange_module
from fedtag.server.exchange.awaited import Awaited
from tests.scripted import DEADLINE, honest, says, sign, talk

LIAR, HONEST = 2, 3


@pytest.mark.parametrize(
    ("claims", "bound"),
    [
        # It says that it has only just begun, in its first sign after a second.
        (sign(seconds=0.0), 61),
        (sign(seconds=10.0**9), 60),
        (sign("queued"), 60),
        (sign(percent=99), 61),
    ],
)
def test_a_site_that_says_for_ever_that_it_works_is_left_out(
    tmp_path: Path, claims: Sign, bound: float
) -> None:
    over = talk(tmp_path, {LIAR: says(then=claims), HONEST: honest(1)})
    assert list(over.found.replies) == [HONEST]
    assert list(over.found.failures) == [LIAR]
    assert bound <= over.seconds < bound + 2
    # A sign costs a site nothing, so that there is a pause before the next message.
    assert len(over.grid.asked[LIAR]) <= over.seconds / 2 + 1


def test_two_deadlines_are_the_most(tmp_path: Path) -> None:
    """It begins as late as it can."""
    late = [sign("queued")] * 28
    over = talk(tmp_path, {LIAR: says(*late, then=sign(seconds=0.0)), HONEST: honest(1)})
    assert list(over.found.failures) == [LIAR]
    assert 1.9 * DEADLINE < over.seconds < 2 * DEADLINE + 2


class Believing(Awaited):
    """Counts from the start of the work that each sign claims."""

    def at_work(self, now: float, seconds: float) -> None:
        self.began = now - seconds

    @property
    def due(self) -> float:
        return (self.pushed if self.began is None else self.began) + self.deadline


def test_believed_it_holds_the_round_for_as_long_as_it_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr(exchange_module, "Awaited", Believing)
    over = talk(tmp_path, {LIAR: says(*[sign(seconds=0.0)] * 200), HONEST: honest(1)})
    assert over.seconds > 5 * DEADLINE
