from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.worker.frames import LENGTH, MAX_PARTS, Frame, receive, record_frame, record_of, send
from fedtag.common.errors import WireError
from fedtag.common.wire.limits import MAX_HEADER_BYTES
from fedtag.common.wire.serialised import Serialised

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# The parts of a record, which the test puts together: building one inside a strategy runs its type check there.
PARTS = st.tuples(
    TEXT, st.none() | st.binary(max_size=50), st.none() | TEXT, st.lists(st.binary()).map(tuple)
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(5)
        yield here, there


def crossed(frame: Frame) -> Frame:
    here, there = socket.socketpair()
    with here, there:
        writer = threading.Thread(target=send, args=(here, frame))
        writer.start()
        got = receive(there)
        writer.join()
    return got


def received(sent: bytes) -> Frame:
    """What comes of these bytes when the connection closes after them."""
    here, there = socket.socketpair()

    def write() -> None:
        with here:
            here.sendall(sent)

    writer = threading.Thread(target=write)
    writer.start()
    with there:
        there.settimeout(10)
        try:
            return receive(there)
        finally:
            writer.join(10)


def framed(header: object, rest: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return LENGTH.pack(len(text)) + text + rest


@given(PARTS)
def test_a_record_arrives_as_it_was(
    parts: tuple[str, bytes | None, str | None, tuple[bytes, ...]],
) -> None:
    record = Serialised(*parts)
    frame = crossed(record_frame("instruct", record, {"idle": 1.5}))
    assert (frame.kind, frame.fields["idle"]) == ("instruct", 1.5)
    assert record_of(frame) == record


def test_parts_of_many_megabytes_arrive() -> None:
    parts = (bytes(range(256)) * 40_000, b"", b"x")
    assert crossed(Frame("reply", {}, parts)).parts == parts


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (LENGTH.pack(MAX_HEADER_BYTES + 1), "exceeds"),
        (b"\xff\xff\xff\xff", "exceeds"),
        (framed(b"{"), "not JSON"),
        (framed(b"\xff\xfe"), "not ASCII"),
        (framed(b"[" * 100_000), "nests deeper"),
        (framed(b'{"kind":"a","fields":{"x":NaN},"parts":[]}'), "NaN"),
        (framed([]), "needs a kind"),
        (framed({"kind": 1, "fields": {}, "parts": []}), "needs a kind"),
        (framed({"kind": "a", "fields": [], "parts": []}), "needs a kind"),
        (framed({"kind": "a", "fields": {}}), "needs a kind"),
        (framed({"kind": "a", "fields": {}, "parts": [-1]}), "not counts"),
        (framed({"kind": "a", "fields": {}, "parts": [True]}), "not counts"),
        (framed({"kind": "a", "fields": {}, "parts": [1.0]}), "not counts"),
        (framed({"kind": "a", "fields": {}, "parts": [2**62]}), "more than"),
        (framed({"kind": "a", "fields": {}, "parts": [0] * (MAX_PARTS + 1)}), "more than"),
    ],
)
def test_hostile_bytes_are_refused(sent: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message):
        received(sent)


@pytest.mark.parametrize(
    "sent",
    [b"", b"\x01", LENGTH.pack(9) + b"{", framed({"kind": "a", "fields": {}, "parts": [10**9]}, b"abc")],
)
def test_an_end_in_the_middle_is_a_lost_connection(sent: bytes) -> None:
    with pytest.raises(ConnectionError):
        received(sent)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_frame_or_refused(sent: bytes) -> None:
    with pytest.raises((WireError, ConnectionError)):
        received(sent)


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({}, ()),
        ({"record": 1}, ()),
        ({"record": {"addresses": 0}}, (b"",)),
        ({"record": {"addresses": "x", "tensors": 0}}, (b"",)),
        ({"record": {"addresses": 0, "tensors": 2}}, (b"", b"", b"")),
        ({"record": {"addresses": 0, "tensors": 1}}, (b"",)),
        ({"record": {"addresses": 1, "tensors": 1}}, (b"", b"")),
        ({"record": {"addresses": 0, "tensors": 0}}, (b"\xff",)),
    ],
)
def test_frames_without_a_record_are_refused(fields: dict[str, object], parts: tuple[bytes, ...]) -> None:
    with pytest.raises(WireError):
        record_of(Frame("reply", fields, parts))


def test_fields_have_the_type_that_is_asked_for(pair: tuple[socket.socket, socket.socket]) -> None:
    send(pair[0], Frame("hello", {"code": 1, "table": [1]}))
    frame = receive(pair[1])
    with pytest.raises(WireError, match="'code' of frame 'hello' is not a text"):
        frame.text("code")
    with pytest.raises(WireError, match="'table' of frame 'hello' is not a table"):
        frame.table("table")
