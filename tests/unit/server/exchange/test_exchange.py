"""Sites that say that they work, as the server hears them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.common.wire.records import Instruction, Reply
from fedtag.common.wire.signs import Collect, Sign
from fedtag.server.tracking.status import read_status
from tests.scripted import JOB, PATIENCE, Asked, honest, mute, reply, says, sign, talk


def test_work_shorter_than_the_patience_takes_the_messages_of_today(tmp_path: Path) -> None:
    over = talk(tmp_path, {2: honest(PATIENCE - 1), 3: honest(1)})
    assert list(over.found.replies) == [2, 3]
    assert not over.found.signs
    assert {node: len(asked) for node, asked in over.grid.asked.items()} == {2: 1, 3: 1}


@pytest.mark.parametrize(("begins", "lasts"), [(0, 55), (30, 55), (35, 58)])
def test_a_site_that_says_that_it_works_has_its_deadline_from_the_start_of_its_work(
    tmp_path: Path, begins: float, lasts: float
) -> None:
    over = talk(tmp_path, {2: honest(lasts, begins), 3: honest(1)})
    assert not over.found.failures
    assert begins + lasts <= over.seconds < begins + lasts + 2
    first, *later = over.grid.asked[2]
    assert isinstance(first, Instruction)
    assert set(later) == {Collect("run", 1, 1, "train", JOB)}
    # No tensors go out a second time.
    assert max(over.grid.sizes[2][1:]) < 1000 < 4000 < over.grid.sizes[2][0]
    assert len(over.found.signs[2]) == len(later) == lasts // PATIENCE
    assert over.found.bytes_down == sum(map(sum, over.grid.sizes.values()))
    assert over.found.bytes_up > sum(over.found.signs[2])


def test_without_signs_the_same_work_is_too_late(tmp_path: Path) -> None:
    """The control."""
    over = talk(tmp_path, {2: mute(85), 3: honest(1)})
    assert list(over.found.replies) == [3]
    assert over.found.failures == {2: "no reply within 60 s"}


def test_work_that_takes_too_long_from_its_start_is_not_waited_for(tmp_path: Path) -> None:
    over = talk(tmp_path, {2: honest(70, begins=20), 3: honest(1)})
    assert over.found.failures == {2: "no reply within 60 s of the start of its work"}
    assert 80 <= over.seconds < 82


def test_work_that_was_lost_is_asked_for_anew_once(tmp_path: Path) -> None:
    over = talk(tmp_path, {2: says(sign(seconds=20.0), sign("lost"), sign(seconds=1.0), reply())})
    assert list(over.found.replies) == [2]
    assert [type(one) for one in over.grid.asked[2]] == [Instruction, Collect, Instruction, Collect]
    assert over.grid.sizes[2][0] == pytest.approx(over.grid.sizes[2][2], abs=50)
    over = talk(tmp_path, {2: says(then=sign("lost")), 3: honest(1)})
    assert "its work was lost 2 times" in over.found.failures[2]
    assert len(over.grid.asked[2]) == 2


def test_a_sign_of_another_exchange_is_refused(tmp_path: Path) -> None:
    over = talk(tmp_path, {2: says(sign(step=7), then=reply()), 3: honest(1)})
    assert "belongs to step '7', not to '1': stale or replayed" in over.found.failures[2]


def test_the_status_says_who_works_since_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtag.server.state.monitor.REPLY_SECONDS", 0.0)
    seen = []

    def site(asked: Asked, now: float) -> tuple[float, Reply | Sign]:
        status = read_status(tmp_path)
        assert status is not None
        seen.append((status.clients[0].state, status.clients[0].percent, status.clients[0].working_since))
        return (
            (now + 1, reply()) if len(seen) == 3 else (now + 20, sign(seconds=20.0 * len(seen), percent=40))
        )

    talk(tmp_path, {2: site})
    assert seen[0] == ("asked", None, None)
    assert seen[-1][:2] == ("working", 40)
    assert seen[-1][2] is not None
