"""Sealed records between two clients: X25519, HKDF, AES-256-GCM; whoever carries them learns size and address.

A letter binds run, round, step, sender, recipient and kind, so that it opens nowhere else. Round and step stand
in front of the sealed part, because its reader must know them first.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fedtag.common.errors import ProtocolError, WireError
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.identity import Identity, PublicIdentity
from fedtag.common.wire.records import Content, Letter, Reply
from fedtag.common.wire.serialisation import reply_of, serialised
from fedtag.common.wire.serialised import Serialised

_STAMP = struct.Struct(">QQ")
STAMP_BYTES = _STAMP.size
"""At the front of a letter; among letters of one run their order is that of writing."""

_LENGTH = struct.Struct(">I")


@dataclass(frozen=True)
class Stamp:
    """When a letter was written: in which run, round and exchange."""

    run: str
    round: int
    step: int


def sealed_letter(
    identity: Identity,
    sender: str,
    recipient: str,
    key: PublicIdentity,
    kind: str,
    stamp: Stamp,
    content: Content,
) -> Letter:
    """A record that only its recipient can read.

    Args:
        identity: of the sender.
        sender, recipient: names.
        key: the recipient's.
        kind: of the record.
        stamp: now.
        content: tensors and values.

    Raises:
        ProtocolError: the recipient's key is degenerate.
    """
    record = serialised(Reply(stamp.run, stamp.step, stamp.round, kind, sender, content))
    header = record.header.encode()
    text = _LENGTH.pack(len(header)) + header + (record.tensors or b"")
    body = identity.seal_for(key, _context(stamp, sender, recipient, kind), text)
    return Letter(sender, recipient, kind, _STAMP.pack(stamp.round, stamp.step) + body)


def letter_stamp(letter: Letter, run: str) -> Stamp:
    """When a letter says that it was written; true only if it then opens.

    Raises:
        ProtocolError: it is too short to say so.
    """
    if len(letter.body) < _STAMP.size:
        raise ProtocolError(f"a letter of {letter.sender} is cut off")
    return Stamp(run, *_STAMP.unpack_from(letter.body))


def opened_letter(
    identity: Identity, key: PublicIdentity, recipient: str, letter: Letter, stamp: Stamp, max_bytes: float
) -> Content:
    """What a letter says.

    Args:
        identity: of the recipient.
        key: the sender's.
        recipient: name of the reader.
        letter: as it arrived.
        stamp: what it says of itself.
        max_bytes: of its tensors.

    Raises:
        ProtocolError: it was altered, is of another sender, for another, or from another run, round or exchange.
        WireError: its sender wrote what is no record.
    """
    context = _context(stamp, letter.sender, recipient, letter.kind)
    text = identity.open_from(key, context, letter.body[_STAMP.size :])
    if len(text) < _LENGTH.size:
        raise WireError("a letter without a header is no record")
    end = _LENGTH.size + _LENGTH.unpack_from(text)[0]
    try:
        header = text[_LENGTH.size : end].decode()
    except UnicodeDecodeError as error:
        raise WireError(f"a letter's header is no text: {error}") from None
    record = Serialised(header, text[end:] or None)
    return reply_of(record, max_bytes).content


def _context(stamp: Stamp, sender: str, recipient: str, kind: str) -> bytes:
    return canonical("letter", stamp.run, stamp.round, stamp.step, sender, recipient, kind)
