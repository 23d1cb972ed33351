from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.server.exchange.awaited import Awaited

PUSHED, DEADLINE = 1000.0, 60.0


def awaited() -> Awaited:
    return Awaited(PUSHED, DEADLINE, "key")


def test_before_a_sign_the_deadline_counts_from_the_push() -> None:
    one = awaited()
    assert one.due == 1060
    assert one.too_late == "no reply within 60 s"


@pytest.mark.parametrize(
    ("came", "says", "due"),
    [
        (1020, 20, 1060),
        (1050, 20, 1090),
        (1059, 0, 1119),
        # Longer than the server has waited: it cannot be, and helps nobody.
        (1020, 10**9, 1060),
    ],
)
def test_after_a_sign_it_counts_from_the_start_of_the_work(came: float, says: float, due: float) -> None:
    one = awaited()
    one.at_work(came, says)
    assert one.due == due
    assert one.too_late == "no reply within 60 s of the start of its work"
    # What is said later moves nothing.
    one.at_work(came + 40, 0)
    assert one.due == due


def test_work_that_is_lost_begins_anew_within_the_same_bound() -> None:
    one = awaited()
    one.at_work(1030, 10)
    one.lost()
    assert (one.again, one.due) == (True, 1080)
    one.at_work(1050, 5)
    assert one.due == 1105


@given(
    st.lists(
        st.tuples(st.sampled_from(["works", "lost"]), st.floats(0, 10**9), st.floats(0, 10**9)), max_size=8
    )
)
def test_whatever_a_site_says_it_has_one_deadline_and_at_most_two(
    said: list[tuple[str, float, float]],
) -> None:
    one, now = awaited(), PUSHED
    for kind, later, seconds in said:
        now = min(now + later, one.due)
        before = one.due
        if kind == "works":
            one.at_work(now, seconds)
        else:
            one.lost()
        assert max(before, PUSHED + DEADLINE) <= one.due <= PUSHED + 2 * DEADLINE
