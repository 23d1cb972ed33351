from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fedtag.common.errors import WireError
from fedtag.common.wire.limits import MAX_SIGN_BYTES
from fedtag.common.wire.serialised import Serialised
from fedtag.common.wire.signs import (
    Collect,
    Sign,
    collect_of,
    lost,
    percentage_of,
    serialised_sign,
    sign_of,
)

COLLECT = Collect("run", 3, 2, "train", "ab" * 32)
SIGN = Sign("run", 3, 2, "train", "ab" * 32, "working", 12.5, 40)


def changed(record: Collect | Sign, **values: Any) -> Serialised:
    return Serialised(json.dumps({**json.loads(serialised_sign(record).header), **values}))


def test_what_is_written_is_read() -> None:
    assert sign_of(serialised_sign(SIGN)) == SIGN
    assert collect_of(serialised_sign(COLLECT)) == COLLECT
    assert lost(COLLECT) == replace(SIGN, state="lost", seconds=0.0, percent=None)


def test_each_is_told_from_other_records() -> None:
    assert sign_of(serialised_sign(COLLECT)) is collect_of(serialised_sign(SIGN)) is None
    assert collect_of(changed(COLLECT, kind="Instruction")) is None
    # One that carries something is no sign, nor is one of the length of a reply.
    assert sign_of(replace(serialised_sign(SIGN), tensors=b"")) is None
    assert sign_of(replace(serialised_sign(SIGN), bodies=(b"",))) is None
    assert sign_of(changed(SIGN, run="x" * MAX_SIGN_BYTES)) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"state": "asleep"}, "state of a sign is 'asleep'"),
        ({"seconds": -1}, "seconds of a sign"),
        ({"seconds": 10**10}, "seconds of a sign"),
        ({"seconds": True}, "seconds of a sign"),
        ({"seconds": "1"}, "seconds of a sign"),
        ({"percent": 101}, "percentage of a sign"),
        ({"percent": 1.5}, "percentage of a sign"),
        ({"job": "AB" * 32}, "64 hexadecimal digits"),
        ({"job": "ab"}, "64 hexadecimal digits"),
        ({"step": "3"}, "other fields"),
        ({"work": "encoding the text of node 3"}, "other fields"),
    ],
)
def test_other_signs_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError, match=message):
        sign_of(changed(SIGN, **values))


def test_work_is_told_in_whole_percent() -> None:
    assert [percentage_of(done, 7) for done in (0, 1, 6, 7, 9)] == [0, 14, 85, 100, 100]
    assert percentage_of(1, 0) is None
