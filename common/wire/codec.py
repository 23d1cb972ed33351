"""Records to Flower messages and back, and messages as the bytes that cross the network."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from flwr.app import ArrayRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from fedtag.common.tensors import tensor_bytes
from fedtag.common.wire.envelope import opened, sealed, travelling
from fedtag.common.wire.records import Instruction, Reply
from fedtag.common.wire.serialisation import instruction_of, reply_of, serialised_text


def encode(
    record: Instruction | Reply, written: dict[Hashable, bytes | ArrayRecord] | None = None
) -> RecordDict:
    """A record as the content of a Flower message.

    Args:
        record: what is sent.
        written: tensors that were written before, to be shared by the messages of one exchange; the same
            tensor objects under the same names are then serialised and hashed once.
    """
    text = serialised_text(record)
    if not record.content.tensors:
        return sealed(text)
    written = {} if written is None else written
    key = tuple((name, id(value)) for name, value in record.content.tensors.items())
    if key not in written:
        written[key] = travelling(tensor_bytes(record.content.tensors))
    return sealed(text, written[key])


def decode_instruction(records: RecordDict) -> Instruction:
    """The instruction in a message.

    Raises:
        WireError: if it is not one of this schema.
    """
    return instruction_of(opened(records))


def decode_reply(records: RecordDict, max_bytes: float) -> Reply:
    """The reply in a message of at most `max_bytes`.

    Raises:
        WireError: if it is not a reply of this schema, too large, or not finite JSON.
    """
    return reply_of(opened(records), max_bytes)


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
