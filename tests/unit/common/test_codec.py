from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Hashable
from typing import Any

import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.common.errors import WireError
from fedtag.common.wire.codec import decode_instruction, decode_reply, encode, pack
from fedtag.common.wire.envelope import SMALL
from fedtag.common.wire.limits import (
    MAX_DEPTH,
    MAX_EMPTY_SIDE,
    MAX_HEADER_BYTES,
    MAX_LETTERS,
    MAX_NAME,
    MAX_TABLES,
    MAX_TENSORS,
    MAX_TEXT,
    MAX_VALUES,
)
from fedtag.common.wire.protocol import PROTOCOL
from fedtag.common.wire.records import Content, Instruction, Letter, Reply, prefixed
from fedtag.common.wire.serialisation import instruction_of, reply_of, serialised

LIMIT = 2.0**20
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=12)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    kind = draw(st.sampled_from([torch.float32, torch.int64, torch.bool]))
    values = torch.arange(math.prod(shape)) + draw(st.integers(-3, 3))
    return (values % 2 if kind is torch.bool else values).to(kind).reshape(shape)


# The parts of a record, which the tests put together: building one inside a strategy runs its type check there.
PARTS = st.tuples(
    st.dictionaries(NAMES, tensors(), max_size=4),
    st.dictionaries(TEXT, JSON, max_size=3),
    st.lists(st.tuples(TEXT, TEXT, TEXT, st.binary(max_size=20)), max_size=2),
)


@pytest.fixture(autouse=True, scope="module")
def _identity() -> None:
    """Flower's messages name the run and the node of the process that makes them."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1


def same(one: Content, other: Content) -> bool:
    return (
        one.values == other.values
        and one.letters == other.letters
        and one.tensors.keys() == other.tensors.keys()
        and all(
            value.dtype == other.tensors[name].dtype
            and value.shape == other.tensors[name].shape
            and torch.equal(value, other.tensors[name])
            for name, value in one.tensors.items()
        )
    )


@settings(max_examples=60)
@given(PARTS, TEXT, st.integers(0, 10**9))
def test_records_survive_the_wire(parts: tuple[Any, Any, Any], name: str, step: int) -> None:
    content = Content(parts[0], parts[1], tuple(Letter(*letter) for letter in parts[2]))
    reply = Reply("run", step, 3, "train", name, content)
    message = Message(encode(reply), dst_node_id=1, message_type="train")
    parcel = pack(message)
    arrived = decode_reply(parcel.open().content, math.inf)
    assert (arrived.run, arrived.step, arrived.round, arrived.phase, arrived.client) == (
        "run",
        step,
        3,
        "train",
        name,
    )
    assert same(arrived.content, content)
    assert parcel.size == sum(len(part) for part in parcel.objects.values())
    assert parcel.size >= sum(value.numel() * value.element_size() for value in content.tensors.values())

    instruction = Instruction("run", step, 3, "train", content)
    assert same(decode_instruction(encode(instruction)).content, content)
    # Through a local socket the record needs no Flower.
    assert same(instruction_of(serialised(instruction)).content, content)
    assert same(reply_of(serialised(Reply("run", step, 3, "train", "site", content)), LIMIT).content, content)


@given(st.data())
def test_whatever_the_header_says_only_wire_errors_come(data: st.DataObject) -> None:
    """JSON of any form in place of the header is decoded or refused, never anything else."""
    text = data.draw(st.one_of(JSON.map(json.dumps), st.text(max_size=30)))
    record = ConfigRecord({"protocol": PROTOCOL, "release": "1.0", "json": text})
    with pytest.raises(WireError):
        decode_reply(RecordDict({"header": record}), LIMIT)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_safetensors_are_refused(blob: bytes) -> None:
    with pytest.raises(WireError, match="not readable safetensors"):
        decode_reply(tampered(blob=blob), LIMIT)


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_changed_or_cut_blob_is_read_or_refused(place: int, byte: int) -> None:
    whole = valid_blob()
    position = place % len(whole)
    changed = whole[:position] + bytes([byte]) + whole[position + 1 :]
    with contextlib.suppress(WireError):
        decode_reply(tampered(blob=changed), LIMIT)
    with pytest.raises(WireError):
        decode_reply(tampered(blob=whole[:position]), LIMIT)


def reply(**values: Any) -> Reply:
    return Reply("run", 1, 1, "train", "site", Content({"update/w": torch.ones(2, 3)}, values))


def valid_blob() -> bytes:
    return bytes(encode(reply())["header"]["tensors"])


def array(blob: bytes, stype: str = "safetensors") -> ArrayRecord:
    return ArrayRecord({"blob": Array(dtype="uint8", shape=(len(blob),), stype=stype, data=blob)})


def tampered(
    header: dict[str, Any] | str | None = None,
    blob: bytes | None = None,
    arrays: object = None,
    **more: Any,
) -> RecordDict:
    """A valid reply with parts replaced."""
    records = encode(reply(sizes={"nodes": 1}))
    record = records["header"]
    if header is not None:
        fields = json.loads(record["json"])
        record["json"] = header if isinstance(header, str) else json.dumps({**fields, **header})
    for name, value in more.items():
        record[name] = value
    if blob is not None:
        record["tensors"] = blob
    if arrays is not None:
        del record["tensors"]
        records["tensors"] = arrays
    return records


def with_text(part: str) -> str:
    return json.dumps(json.loads(encode(reply())["header"]["json"])).replace(
        '"values": {', f'"values": {{"x": {part}'
    )


HEADERS: dict[str, tuple[dict[str, Any] | str, str]] = {
    "not JSON": ("{", "not JSON"),
    "empty": ("", "not JSON"),
    "a list": ("[]", "not a table"),
    "deep": ("[" * 100_000 + "]" * 100_000, "nests deeper"),
    "deeper in a value": (with_text("[" * 1000 + "]" * 1000), "nests deeper"),
    "lists": (with_text("[" + "[]," * MAX_TABLES + "1]"), "lists and tables"),
    "many values": (with_text("[" + "1," * MAX_VALUES + "1]"), f"more than {MAX_VALUES} values"),
    "quotes": ('"' * (3 * MAX_VALUES), "values"),
    "a long text": (with_text(f'"{"a" * (MAX_TEXT + 1)}"'), f"a text of more than {MAX_TEXT}"),
    "a very long text": (with_text(f'"{"a" * (7 * MAX_TEXT)}"'), f"a text of more than {MAX_TEXT}"),
    "a long key": (with_text(f'{{"{"a" * (MAX_NAME + 1)}":1}}'), "a key of more than"),
    "a key twice": (with_text('{"a":1,"a":2}'), "a key twice"),
    "a field twice": ('{"run":"a","run":"b"}', "a key twice"),
    "not ASCII": (with_text('"\u00e4"').replace("\\u00e4", "\u00e4"), "not ASCII"),
    "deeper than agreed": ({"values": {"x": json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)}}, "nests deeper"),
    "too long": (" " * (MAX_HEADER_BYTES + 1), "header is not ASCII of at most"),
    "NaN": (with_text("NaN"), "NaN"),
    "Infinity": (with_text("-Infinity"), "Infinity"),
    "overflow": (with_text("1e999"), "infinite"),
    "endless integer": (with_text("9" * 30), "beyond 64 bits"),
    "unprintable integer": (with_text("9" * 5000), "a number of more than"),
    "exponent": (with_text("1e" + "9" * 70), "a number of more than"),
    "half a letter": (with_text('"\\ud800"'), "surrogate"),
    "instruction": ({"kind": "Instruction"}, "expected a record of kind Reply"),
    "no kind": ({"kind": None}, "expected a record"),
    "round": ({"round": "1"}, "field 'round'"),
    "bool round": ({"round": True}, "field 'round'"),
    "float step": ({"step": 1.0}, "field 'step'"),
    "client": ({"client": ["x"]}, "field 'client'"),
    "run": ({"run": None}, "field 'run'"),
    "values": ({"values": [1]}, "'values' is not a table"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_headers_are_refused(name: str) -> None:
    header, message = HEADERS[name]
    with pytest.raises(WireError, match=message):
        decode_reply(tampered(header), LIMIT)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"protocol": 7, "release": "9.1"},
            rf"message is of protocol 7 \(fedtag 9.1\), and here is protocol {PROTOCOL}",
        ),
        ({"protocol": "1"}, "message is of no known protocol"),
        ({"protocol": True}, "message is of no known protocol"),
        ({"protocol": 10**9}, "message is of no known protocol"),
        ({"protocol": 7, "release": "9.1 patient 17"}, r"\(fedtag of an unknown release\)"),
        ({"protocol": 7, "release": b"9.1"}, r"\(fedtag of an unknown release\)"),
        ({"json": 7}, "not text"),
        ({"json": b"{}"}, "not text"),
        ({"addresses": "[", "bodies": []}, "addresses is not JSON"),
        ({"addresses": "[" * 100_000, "bodies": []}, "addresses nests deeper"),
        ({"addresses": "[]", "bodies": [b""] * (MAX_LETTERS + 1)}, f"more than {MAX_LETTERS} letters"),
        ({"addresses": '[["a","b","%s"]]' % ("c" * 65), "bodies": [b"x"]}, "more than 64 characters"),
        ({"addresses": '[["a","%s","c"]]' % ("b" * 65), "bodies": [b"x"]}, "more than 64 characters"),
        ({"addresses": " " * (MAX_HEADER_BYTES + 1), "bodies": []}, "addresses is not ASCII of at most"),
        ({"more": 1}, "other entries"),
        ({"addresses": 1.5, "bodies": []}, "addresses are not JSON"),
        ({"addresses": "{}", "bodies": []}, "differ in number"),
        ({"addresses": "[]"}, "letters need addresses and bodies"),
        ({"bodies": [b"x" * 100]}, "letters need addresses and bodies"),
        ({"addresses": '[["a","b","c"]]', "bodies": []}, "differ in number"),
        ({"addresses": '[["a","b"]]', "bodies": [b"x"]}, "needs sender"),
        ({"addresses": '[["a","b",3]]', "bodies": [b"x"]}, "needs sender"),
        ({"addresses": "[7]", "bodies": [b"x"]}, "needs sender"),
        ({"addresses": '[["a","b","c"]]', "bodies": ["x"]}, "body of bytes"),
        ({"addresses": '[["a","b","c"]]', "bodies": b"x"}, "differ in number"),
    ],
)
def test_malformed_records_and_letters_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError, match=message):
        decode_reply(tampered(**more), LIMIT)


def test_a_message_without_our_header_is_refused() -> None:
    for records in (RecordDict(), RecordDict({"header": ArrayRecord()})):
        with pytest.raises(WireError, match="without a 'header' record"):
            decode_reply(records, LIMIT)
    with pytest.raises(WireError, match="message is of no known protocol"):
        decode_reply(RecordDict({"header": ConfigRecord()}), LIMIT)


def test_a_message_with_more_records_is_refused() -> None:
    records = tampered()
    records["metrics"] = MetricRecord({"accuracy": 1.0})
    with pytest.raises(WireError, match="holds more than 'header' and 'tensors'"):
        decode_reply(records, LIMIT)


def blob_of(form: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps({"update/w": form}).encode()
    return struct.pack("<Q", len(text)) + text + data


FORM: dict[str, Any] = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


def table_of(text: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text.encode() + data


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (blob_of({**FORM, "shape": [0, 2**63], "data_offsets": [0, 0]}, b""), "beyond what its bytes"),
        (blob_of({**FORM, "shape": [2**40, 0], "data_offsets": [0, 0]}, b""), "beyond what its bytes"),
        (blob_of({**FORM, "shape": [0, MAX_EMPTY_SIDE + 1], "data_offsets": [0, 0]}, b""), "beyond what its"),
        (blob_of({**FORM, "shape": [2**40, 2**40], "data_offsets": [0, 0]}, b""), "beyond what its bytes"),
        (blob_of({**FORM, "shape": [2**20, 2**20]}, b"1111"), "not readable safetensors"),
        (blob_of({**FORM, "shape": [1] * 9}, b"1111"), "no shape of at most 8"),
        (blob_of({**FORM, "shape": [True]}, b"1111"), "no shape"),
        (blob_of({**FORM, "shape": [1.0]}, b"1111"), "no shape"),
        (blob_of({**FORM, "shape": [-1]}, b"1111"), "no shape"),
        (blob_of({**FORM, "shape": 1}, b"1111"), "lacks dtype"),
        (blob_of({**FORM, "more": 1}, b"1111"), "lacks dtype"),
        (blob_of({**FORM, "data_offsets": [0, 40]}, b"1111"), "not readable safetensors"),
        (blob_of({**FORM, "data_offsets": [4, 0]}, b"1111"), "not readable safetensors"),
        (blob_of({**FORM, "data_offsets": ["0", 4]}, b"1111"), "not readable safetensors"),
        (blob_of({**FORM, "dtype": "F4"}, b"1111"), "has type 'F4'"),
        (blob_of({**FORM, "dtype": "C64", "data_offsets": [0, 8]}, b"1" * 8), "has type 'C64'"),
        (blob_of({**FORM, "dtype": "PICKLE"}, b"1111"), "has type 'PICKLE'"),
        (table_of(json.dumps({"a\u001b[2J": FORM}), b"1111"), "printable"),
        (table_of(json.dumps({"a\u202e": FORM}), b"1111"), "printable"),
        (table_of(json.dumps({"": FORM}), b"1111"), "printable"),
        (table_of(json.dumps({"a" * 257: FORM}), b"1111"), "1 to 256 printable"),
        (table_of(json.dumps({"a": FORM, "b": FORM}), b"1111"), "not readable safetensors"),
        (table_of(json.dumps({"a": FORM, "b": {**FORM, "data_offsets": [2, 6]}}), b"1" * 6), "not readable"),
        (table_of('{"a":%s,"a":%s}' % ((json.dumps(FORM),) * 2), b"1111"), "a key twice"),
        (table_of('{"__metadata__":{"a":"b"}}'), "lacks dtype"),
        (table_of("[" * 1000), "nests deeper"),
        (table_of("[]"), "not readable safetensors"),
        (table_of("{" * (MAX_TENSORS + 2)), f"more than {MAX_TENSORS} tensors"),
        (table_of("{}" + " " * 2**24), f"{MAX_TENSORS} tensors are the most"),
        (struct.pack("<Q", 2**63) + b"{}", "longer than what came"),
        (struct.pack("<Q", 2) + b"\xff\xff", "not ASCII"),
        (b"\x80\x04K\x01.", "lack a table"),
    ],
)
def test_forged_safetensors_are_refused(blob: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message):
        decode_reply(tampered(arrays=array(blob)), LIMIT * 32)


@given(
    st.recursive(JSON | st.just(FORM), lambda one: st.dictionaries(TEXT, one, max_size=3), max_leaves=6),
    st.binary(max_size=12),
)
def test_any_table_of_tensors_is_read_or_refused(table: Any, data: bytes) -> None:
    with contextlib.suppress(WireError):
        decode_reply(tampered(blob=table_of(json.dumps(table), data)), LIMIT)


def test_what_the_product_supports_is_within_the_limits() -> None:
    """A thousand clients' keys for twenty rounds of sums, and a model of many tensors."""
    keys = {
        f"site {number}": {"keys": ["0" * 64] * 20, "commitments": ["0" * 64] * 20} for number in range(1000)
    }
    model = {f"update/layers.{number}.weight": torch.ones(2, 3) for number in range(6000)}
    sent = Content(
        model, {"plan": keys}, tuple(Letter("a", f"site {n}", "shares", b"x") for n in range(1000))
    )
    assert same(decode_reply(encode(Reply("run", 1, 1, "train", "site", sent)), LIMIT).content, sent)


def test_other_arrays_are_refused() -> None:
    assert decode_reply(tampered(arrays=array(valid_blob())), LIMIT).content.tensors
    more = ArrayRecord({**array(valid_blob()), "second": array(valid_blob())["blob"]})
    for wrong in (array(valid_blob(), "numpy.ndarray"), ArrayRecord(), ConfigRecord(), more):
        with pytest.raises(WireError, match="one safetensors array"):
            decode_reply(tampered(arrays=wrong), LIMIT)


def test_tensors_travel_once() -> None:
    both = tampered()
    both["tensors"] = array(valid_blob())
    for wrong in (both, tampered(tensors="text"), tampered(tensors=[1]), tampered(blob=bytes(SMALL + 1))):
        with pytest.raises(WireError, match="must travel once"):
            decode_reply(wrong, LIMIT)


@pytest.mark.parametrize(("size", "count"), [(SMALL - 1024, 2), (SMALL, 5)])
def test_small_tensors_make_a_message_of_few_objects(size: int, count: int) -> None:
    """Each object is a call at either side of a network; what is large goes in pieces, which Flower makes of arrays."""
    sent = Content({"update/w": torch.zeros(size, dtype=torch.uint8)})
    written: dict[Hashable, bytes | ArrayRecord] = {}
    contents = [encode(Instruction("run", 1, 1, "train", sent), written) for _ in range(2)]
    objects = [get_all_nested_objects(content) for content in contents]
    assert len(objects[0]) == count
    assert same(decode_instruction(contents[0]).content, sent)
    assert len(written) == 1, "tensors that messages share are written once"


def test_a_reply_over_the_limit_is_refused() -> None:
    size = float(len(valid_blob()))
    assert decode_reply(encode(reply()), size).content.tensors
    with pytest.raises(WireError, match=r"exceed exchange\.max-message-mb"):
        decode_reply(encode(reply()), size - 1)


def test_only_finite_json_is_sent() -> None:
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON compliant"):
            encode(reply(loss=value))


def test_tensors_that_share_memory_can_be_sent() -> None:
    """A model and its running average are the same tensors until the first contribution."""
    one = torch.arange(6.0).view(2, 3)
    sent = Content({"model/w": one, "average/w": one, "view/w": one.T})
    arrived = decode_instruction(encode(Instruction("run", 1, 1, "train", sent))).content
    assert same(arrived, Content({**sent.tensors, "view/w": one.T.contiguous()}))


def test_the_same_record_gives_the_same_bytes() -> None:
    assert encode(reply(a=1, b=2))["header"]["json"] == encode(reply(b=2, a=1))["header"]["json"]
    assert valid_blob() == valid_blob()


def test_sections_undo_prefixes() -> None:
    tensor = torch.ones(1)
    content = Content({**prefixed("model", {"a/b": tensor}), **prefixed("models", {"c": tensor})})
    assert content.section("model") == {"a/b": tensor}
    assert content.section("other") == {}
