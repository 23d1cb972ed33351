"""Serialised records in Flower's messages.

A message holds a header (JSON) and one array, the tensors in safetensors format, which Flower sends in
pieces of 5 MB. Nothing here imports torch, so that a process which passes messages on starts at once.
"""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedtag.common.errors import WireError
from fedtag.common.wire.protocol import PROTOCOL, checked_release, installed_release
from fedtag.common.wire.serialised import MAX_HEADER_BYTES, Serialised

HEADER, TENSORS = "header", "tensors"
STYPE = "safetensors"


def sealed(record: Serialised, arrays: ArrayRecord | None = None) -> RecordDict:
    """The content of a message.

    Args:
        record: what is sent.
        arrays: its tensors, where another message shares them.
    """
    header = ConfigRecord({"protocol": PROTOCOL, "release": installed_release(), "json": record.header})
    if record.addresses is not None:
        header["addresses"] = record.addresses
        header["bodies"] = list(record.bodies)
    records = RecordDict({HEADER: header})
    if arrays is None and record.tensors is not None:
        arrays = array_record(record.tensors)
    if arrays is not None:
        records[TENSORS] = arrays
    return records


def array_record(tensors: bytes) -> ArrayRecord:
    """Tensors in safetensors format as an array of Flower's."""
    return ArrayRecord({"blob": Array(dtype="uint8", shape=(len(tensors),), stype=STYPE, data=tensors)})


def opened(records: RecordDict) -> Serialised:
    """The record in the content of a message, as far as it can be told without reading it.

    Raises:
        VersionError: if it is of another protocol.
        WireError: if it is not one of fedtag's.
    """
    record = _header(records)
    checked_release("the message", record.get("protocol"), record.get("release"))
    header = record.get("json")
    if not isinstance(header, str) or len(header) > MAX_HEADER_BYTES:
        raise WireError(f"the header is not text of at most {MAX_HEADER_BYTES} characters")
    return Serialised(header, _tensors(records), *_letters(record))


def release_of(records: RecordDict) -> str:
    """The release that has sealed a message of this protocol.

    Raises:
        VersionError, WireError: see `opened`.
    """
    record = _header(records)
    return checked_release("the message", record.get("protocol"), record.get("release"))


def _header(records: RecordDict) -> ConfigRecord:
    record = records.get(HEADER)
    if not isinstance(record, ConfigRecord):
        raise WireError(f"a message without a '{HEADER}' record is not one of fedtag's")
    return record


def _tensors(records: RecordDict) -> bytes | None:
    if TENSORS not in records:
        return None
    arrays = records[TENSORS]
    blob = arrays.get("blob") if isinstance(arrays, ArrayRecord) else None
    if blob is None or blob.stype != STYPE:
        raise WireError(f"tensors must travel as one {STYPE} array")
    return blob.data


def _letters(record: ConfigRecord) -> tuple[str | None, tuple[bytes, ...]]:
    if "addresses" not in record:
        return None, ()
    addresses, bodies = record["addresses"], record.get("bodies")
    if not isinstance(addresses, str):
        raise WireError("the letters' addresses are not JSON")
    if not isinstance(bodies, list):
        raise WireError("letters and addresses differ in number")
    found = tuple(body for body in bodies if isinstance(body, bytes))
    if len(found) != len(bodies):
        raise WireError("a letter needs sender, recipient, kind and a body of bytes")
    return addresses, found
