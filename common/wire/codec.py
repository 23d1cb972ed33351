"""Records to Flower messages and back.

A message holds a header (JSON) and one array, the tensors in safetensors format, which Flower sends in
pieces of 5 MB. Nothing is ever unpickled. Decoding treats the content as hostile.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import safetensors
import safetensors.torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from torch import Tensor

from common.errors import WireError
from common.wire.records import SCHEMA_VERSION, Content, Instruction, Json, Letter, Reply

HEADER, TENSORS, LETTERS = "header", "tensors", "letters"
STYPE = "safetensors"
MAX_HEADER_BYTES = 16 * 2**20
MAX_DEPTH = 32
LARGEST_INTEGER = 2**63 - 1

R = TypeVar("R", Instruction, Reply)


def encode(record: Instruction | Reply, written: dict[Hashable, ArrayRecord] | None = None) -> RecordDict:
    """A record as the content of a Flower message.

    Args:
        record: what is sent.
        written: tensors that were written before, to be shared by the messages of one exchange; the same
            tensor objects under the same names are then serialised and hashed once.
    """
    fields = {name: value for name, value in vars(record).items() if name != "content"}
    header = {"kind": type(record).__name__, **fields, "values": dict(record.content.values)}
    records = RecordDict({HEADER: _header(header, record.content.letters)})
    if record.content.tensors:
        written = {} if written is None else written
        key = tuple((name, id(value)) for name, value in record.content.tensors.items())
        if key not in written:
            written[key] = _written(record.content.tensors)
        records[TENSORS] = written[key]
    return records


def _written(tensors: Mapping[str, Tensor]) -> ArrayRecord:
    # Copies, because safetensors refuses tensors that share memory, as a model and its average may at first.
    owned = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    blob = safetensors.torch.save(owned)
    return ArrayRecord({"blob": Array(dtype="uint8", shape=(len(blob),), stype=STYPE, data=blob)})


def _header(header: Mapping[str, Any], letters: tuple[Letter, ...]) -> ConfigRecord:
    record = ConfigRecord(
        {
            "schema": SCHEMA_VERSION,
            "json": json.dumps(header, sort_keys=True, allow_nan=False, separators=(",", ":")),
        }
    )
    if letters:
        addresses = [[letter.sender, letter.recipient, letter.kind] for letter in letters]
        record["addresses"] = json.dumps(addresses)
        record["bodies"] = [letter.body for letter in letters]
    return record


def decode_instruction(records: RecordDict) -> Instruction:
    """The instruction in a message.

    Raises:
        WireError: if it is not one of this schema.
    """
    return _decode(records, Instruction, {"run": str, "step": int, "round": int, "phase": str}, math.inf)


def decode_reply(records: RecordDict, max_bytes: float) -> Reply:
    """The reply in a message of at most `max_bytes`.

    Raises:
        WireError: if it is not a reply of this schema, too large, or not finite JSON.
    """
    return _decode(
        records, Reply, {"run": str, "step": int, "round": int, "phase": str, "client": str}, max_bytes
    )


def _decode(records: RecordDict, kind: type[R], fields: Mapping[str, type], max_bytes: float) -> R:
    record = records.get(HEADER)
    if not isinstance(record, ConfigRecord):
        raise WireError(f"a message without a '{HEADER}' record is not one of fedtag's")
    if record.get("schema") != SCHEMA_VERSION:
        raise WireError(
            f"schema version {record.get('schema')!r} is not {SCHEMA_VERSION}: install the same fedtag on all sides"
        )
    header = _parse(record.get("json"))
    if header.get("kind") != kind.__name__:
        raise WireError(f"expected a record of kind {kind.__name__}, got {header.get('kind')!r}")
    for name, wanted in fields.items():
        if type(header.get(name)) is not wanted:
            raise WireError(f"field '{name}' of {kind.__name__} is not a {wanted.__name__}")
    values = header.get("values")
    if not isinstance(values, dict):
        raise WireError("field 'values' is not a table")
    content = Content(_tensors(records, max_bytes), values, _letters(record, max_bytes))
    return kind(**{name: header[name] for name in fields}, content=content)


def _parse(text: Any) -> dict[str, Any]:
    if not isinstance(text, str) or len(text) > MAX_HEADER_BYTES:
        raise WireError(f"the header is not text of at most {MAX_HEADER_BYTES} characters")

    def refuse(constant: str) -> None:
        raise WireError(f"the header holds {constant}; only finite numbers are allowed")

    try:
        header = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise WireError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise WireError("the header is not a table")
    _check_json(header, MAX_DEPTH)
    return header


def _check_json(value: Json, depth: int) -> None:
    """Refuse what JSON can say but later steps cannot keep: 1e999, endless integers, half surrogates, depth."""
    if depth == 0:
        raise WireError(f"the header nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, entry in value.items():
            _check_json(key, depth)
            _check_json(entry, depth - 1)
    elif isinstance(value, list):
        for entry in value:
            _check_json(entry, depth - 1)
    elif isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise WireError("the header holds half of a surrogate pair, which is no text")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise WireError("the header holds an infinite number; only finite numbers are allowed")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise WireError("the header holds an integer beyond 64 bits")


def _tensors(records: RecordDict, max_bytes: float) -> dict[str, Any]:
    if TENSORS not in records:
        return {}
    arrays = records[TENSORS]
    blob = arrays.get("blob") if isinstance(arrays, ArrayRecord) else None
    if blob is None or blob.stype != STYPE:
        raise WireError(f"tensors must travel as one {STYPE} array")
    if len(blob.data) > max_bytes:
        raise WireError(
            f"{len(blob.data)} bytes of tensors exceed exchange.max-message-mb ({max_bytes / 2**20:g})"
        )
    try:
        return safetensors.torch.load(blob.data)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise WireError(f"the tensors are not readable safetensors: {error}") from None


def _letters(record: ConfigRecord, max_bytes: float) -> tuple[Letter, ...]:
    if "addresses" not in record:
        return ()
    bodies = record.get("bodies")
    try:
        addresses = json.loads(cast(str, record["addresses"]))
    except (TypeError, ValueError, RecursionError):
        raise WireError("the letters' addresses are not JSON") from None
    if not isinstance(bodies, list) or not isinstance(addresses, list) or len(bodies) != len(addresses):
        raise WireError("letters and addresses differ in number")
    letters = []
    for address, body in zip(addresses, bodies, strict=True):
        valid = (
            isinstance(address, list) and len(address) == 3 and all(isinstance(part, str) for part in address)
        )
        if not valid or not isinstance(body, bytes):
            raise WireError("a letter needs sender, recipient, kind and a body of bytes")
        letters.append(Letter(address[0], address[1], address[2], body))
    size = sum(len(letter.body) for letter in letters)
    if size > max_bytes:
        raise WireError(f"{size} bytes of letters exceed exchange.max-message-mb ({max_bytes / 2**20:g})")
    return tuple(letters)


@dataclass(frozen=True)
class Parcel:
    """A message as the bytes that cross the network: Flower's content-addressed objects."""

    root: str
    objects: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """Bytes on the wire, without the framing of the transport."""
        return sum(map(len, self.objects.values()))

    def open(self) -> Message:
        """Rebuild the message from its bytes."""
        return cast(Message, inflate_object_from_contents(self.root, dict(self.objects)))


def pack(message: Message) -> Parcel:
    """Serialise a message exactly as Flower does before it sends it."""
    return pack_all([message])[0]


def pack_all(messages: Iterable[Message]) -> list[Parcel]:
    """`pack` of several messages; records that they share are serialised and hashed once."""
    deflated: dict[str, bytes] = {}
    parcels = []
    with no_object_id_recompute():
        for message in messages:
            nested = get_all_nested_objects(message)
            for key, value in nested.items():
                if key not in deflated:
                    deflated[key] = value.deflate()
            parcels.append(Parcel(message.object_id, {key: deflated[key] for key in nested}))
    return parcels
