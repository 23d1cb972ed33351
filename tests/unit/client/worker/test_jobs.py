from __future__ import annotations

import json
import threading

import pytest

from fedtag.client.worker.frames import Frame
from fedtag.client.worker.jobs import FRESH_SECONDS, MOST_FINISHED, Job, Jobs, digest_of, request_for, sign_of
from fedtag.common.errors import WireError
from fedtag.common.wire.serialised import Serialised
from fedtag.common.wire.signs import Collect

DONE = Frame("reply")
NONE = 0.0


def key(number: int) -> tuple[str, str]:
    return "settings", str(number)


def worked(jobs: Jobs, number: int, answer: Frame = DONE) -> Job:
    job = jobs.put(Frame("instruct"), key(number))
    assert jobs.next(lambda: NONE) is job
    jobs.finish(job, answer)
    return job


def test_work_is_done_in_order_and_an_instruction_once() -> None:
    jobs = Jobs()
    first, second = (jobs.put(Frame("instruct"), key(number)) for number in (1, 2))
    assert jobs.put(Frame("instruct"), key(1)) is first
    assert jobs.next(lambda: NONE) is first
    # What is in work is not queued again either.
    assert jobs.put(Frame("instruct"), key(1)) is first
    assert jobs.next(lambda: NONE) is second
    assert jobs.next(lambda: NONE) is None


def test_an_answer_is_waited_for_and_kept_until_other_work_begins() -> None:
    jobs = Jobs()
    job = jobs.put(Frame("instruct"), key(1))
    assert jobs.answer(job, 0.01) is None
    waiting = threading.Thread(target=lambda: found.append(jobs.answer(job, 60)))
    found: list[Frame | None] = []
    waiting.start()
    assert jobs.next(lambda: NONE) is job
    jobs.finish(job, DONE)
    waiting.join(10)
    assert found == [DONE]
    assert jobs.awaited
    worked(jobs, 2)
    # Nobody has got it, so that it outlives other work; afterwards it does not.
    assert jobs.find(key(1)) is job
    jobs.delivered(job)
    assert jobs.put(Frame("instruct"), key(1)) is job
    worked(jobs, 3)
    assert jobs.find(key(1)) is None
    assert jobs.find(key(2)) is not None


def test_an_answer_goes_once_and_then_only_if_it_is_let_out_again() -> None:
    jobs = Jobs()
    job = worked(jobs, 1)
    assert jobs.answer(job, 1) is DONE
    jobs.delivered(job)
    # Whoever asks again waits for the one that works.
    assert jobs.answer(job, 0.01) is None
    assert jobs.next(lambda: NONE) is job
    assert (job.kept, job.taken) == (DONE, True)
    jobs.finish(job, Frame("error"))
    found = jobs.answer(job, 1)
    assert found is not None
    assert found.kind == "error"


def test_an_answer_that_became_old_is_let_out_anew() -> None:
    jobs = Jobs()
    job = worked(jobs, 1)
    job.finished -= 2 * FRESH_SECONDS
    assert jobs.answer(job, 0.01) is None
    assert jobs.next(lambda: NONE) is job
    assert not job.taken
    jobs.finish(job, DONE)
    assert jobs.answer(job, 1) is DONE


def test_what_a_run_has_given_up_is_not_begun() -> None:
    jobs = Jobs()

    def put(number: int, run: str, step: int) -> Job:
        return jobs.put(Frame("instruct"), key(number), Collect(run, step, step, "train", str(number)))

    begun = put(1, "a", 1)
    assert jobs.next(lambda: NONE) is begun
    earlier, other, same, later = put(2, "a", 2), put(3, "b", 1), put(4, "a", 3), put(5, "a", 3)
    found = jobs.answer(earlier, 1)
    assert found is not None
    assert found.kind == "error"
    assert [jobs.next(lambda: NONE) for _ in range(4)] == [other, same, later, None]
    assert jobs.find(key(1)) is begun
    assert jobs.find(key(2)) is None


def test_an_error_is_told_once() -> None:
    jobs = Jobs()
    job = worked(jobs, 1, Frame("error"))
    assert jobs.find(key(1)) is job
    jobs.delivered(job)
    assert jobs.find(key(1)) is None
    assert not jobs.awaited


def test_answers_that_nobody_fetches_do_not_pile_up() -> None:
    jobs = Jobs()
    for number in range(MOST_FINISHED + 3):
        worked(jobs, number)
    assert [number for number in range(MOST_FINISHED + 3) if jobs.find(key(number))] == list(
        range(3, MOST_FINISHED + 3)
    )
    jobs.forget()
    assert not jobs.awaited


def test_at_the_end_who_has_an_answer_gets_it_and_others_are_told() -> None:
    jobs = Jobs()
    done, open_job = worked(jobs, 1), jobs.put(Frame("instruct"), key(2))
    jobs.end()
    assert jobs.answer(done, None) is DONE
    with pytest.raises(ConnectionError, match="the worker ends"):
        jobs.answer(open_job, None)
    with pytest.raises(ConnectionError, match="the worker ends"):
        jobs.put(Frame("instruct"), key(3))


def test_a_sign_says_what_is_known() -> None:
    jobs = Jobs()
    record = Serialised(json.dumps({"run": "r", "step": 4, "round": 2, "phase": "train", "values": {}}))
    asked = request_for(record)
    assert (asked.run, asked.step, asked.round, asked.phase, asked.job) == (
        *("r", 4, 2, "train"),
        digest_of(record),
    )
    job = jobs.put(Frame("instruct"), key(1))
    jobs.report("nobody's", 1, 2)
    assert (sign_of(job, asked).state, sign_of(job, asked).seconds) == ("queued", 0)
    jobs.next(lambda: NONE)
    assert job.began is not None
    job.began -= 5
    jobs.report("the text of node 3", 1, 3)
    sign = sign_of(job, asked)
    assert (sign.state, sign.percent) == ("working", 33)
    assert 5 <= sign.seconds < 60
    assert "text" not in str(sign)
    with pytest.raises(WireError, match="lacks its run"):
        request_for(Serialised("{}"))


def test_every_part_of_an_instruction_is_in_its_digest() -> None:
    whole = Serialised("a", b"b", "c", (b"d", b"e"))
    others = [
        Serialised("ab", b"", "c", (b"d", b"e")),
        Serialised("a", None, "c", (b"d", b"e")),
        Serialised("a", b"", "c", (b"d", b"e")),
        Serialised("a", b"b", None, (b"d", b"e")),
        Serialised("a", b"b", "c", (b"de",)),
        Serialised("a", b"b", "c", (b"d", b"e", b"")),
    ]
    assert len({digest_of(one) for one in [whole, *others]}) == 7
    assert digest_of(whole) == digest_of(Serialised("a", b"b", "c", (b"d", b"e")))
