"""Serialised records in Flower's messages.

A message holds a header (JSON) and the tensors in safetensors format: small ones in the header's record, others as one
array, which Flower sends in pieces of 5 MB. Nothing here imports torch, so that a process which passes messages on
starts at once.
"""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedtag.common.errors import WireError
from fedtag.common.wire.bounded_json import check_size
from fedtag.common.wire.limits import MAX_LETTERS
from fedtag.common.wire.protocol import PROTOCOL, checked_release, installed_release
from fedtag.common.wire.serialised import Serialised

HEADER, TENSORS = "header", "tensors"
ENTRIES = frozenset({"protocol", "release", "json", TENSORS, "addresses", "bodies"})
STYPE = "safetensors"
SMALL = 2**20
"""Bytes of tensors that travel in the header's record. An array is three objects more, each of which Flower moves by a
call of its own at the server and at the site: half of an exchange, where there is little else to do.
"""


def sealed(record: Serialised, tensors: bytes | ArrayRecord | None = None) -> RecordDict:
    """The content of a message.

    Args:
        record: what is sent.
        tensors: its tensors as they travel, where another message shares them.
    """
    header = ConfigRecord({"protocol": PROTOCOL, "release": installed_release(), "json": record.header})
    if record.addresses is not None:
        header["addresses"] = record.addresses
        header["bodies"] = list(record.bodies)
    if tensors is None and record.tensors is not None:
        tensors = travelling(record.tensors)
    if isinstance(tensors, bytes):
        header[TENSORS] = tensors
    records = RecordDict({HEADER: header})
    if isinstance(tensors, ArrayRecord):
        records[TENSORS] = tensors
    return records


def travelling(tensors: bytes) -> bytes | ArrayRecord:
    """Tensors in safetensors format as they travel: where they are more than a few, as an array of Flower's."""
    if len(tensors) <= SMALL:
        return tensors
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
    if not isinstance(header, str):
        raise WireError("the header is not text")
    check_size(header, "the header")
    return Serialised(header, _tensors(records, record), *_letters(record))


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
    if records.keys() - {HEADER, TENSORS} or record.keys() - ENTRIES:
        raise WireError(f"a message holds more than '{HEADER}' and '{TENSORS}', or its header other entries")
    return record


def _tensors(records: RecordDict, record: ConfigRecord) -> bytes | None:
    if TENSORS in record:
        tensors = record[TENSORS]
        if TENSORS in records or not isinstance(tensors, bytes) or len(tensors) > SMALL:
            raise WireError(
                f"tensors must travel once, as at most {SMALL} bytes of the header or as an array"
            )
        return tensors
    if TENSORS not in records:
        return None
    arrays = records[TENSORS]
    blob = arrays.get("blob") if isinstance(arrays, ArrayRecord) and len(arrays) == 1 else None
    if blob is None or blob.stype != STYPE:
        raise WireError(f"tensors must travel as one {STYPE} array")
    return blob.data


def _letters(record: ConfigRecord) -> tuple[str | None, tuple[bytes, ...]]:
    if ("addresses" in record) != ("bodies" in record):
        raise WireError("letters need addresses and bodies")
    if "addresses" not in record:
        return None, ()
    addresses, bodies = record["addresses"], record["bodies"]
    if not isinstance(addresses, str):
        raise WireError("the letters' addresses are not JSON")
    check_size(addresses, "the list of letters' addresses")
    if not isinstance(bodies, list):
        raise WireError("letters and addresses differ in number")
    if len(bodies) > MAX_LETTERS:
        raise WireError(f"more than {MAX_LETTERS} letters in one message")
    found = tuple(body for body in bodies if isinstance(body, bytes))
    if len(found) != len(bodies):
        raise WireError("a letter needs sender, recipient, kind and a body of bytes")
    return addresses, found
