"""What crosses the network in one message: bytes by kind of record, and a digest that both sides come to alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from fedtag.common.audit_log.facts import Crossed, word
from fedtag.common.methods.records import Record
from fedtag.common.secure.canonical import canonical
from fedtag.common.wire.records import Content, Instruction, Reply

Digests = dict[tuple[tuple[str, int], ...], bytes]
"""Of tensors that several messages share, by names and identities."""


def bytes_by_kind(content: Content, declared: Collection[str]) -> dict[str, int]:
    """Bytes of tensors, and of declared values as JSON; settings of an exchange are no records, letters count apart."""
    sizes: dict[str, int] = {}
    for name, value in content.tensors.items():
        kind = name.partition("/")[0]
        sizes[kind] = sizes.get(kind, 0) + value.numel() * value.element_size()
    for name, value in content.values.items():
        if name in declared:
            sizes[name] = sizes.get(name, 0) + len(json.dumps(value))
    return sizes


def all_bytes(content: Content) -> int:
    """Bytes of all that a message holds."""
    return sum(bytes_by_kind(content, content.values).values()) + sum(
        len(one.body) for one in content.letters
    )


def crossed(content: Content, declared: Mapping[str, Record]) -> tuple[Crossed, ...]:
    """Records of a message, as audit logs and `disclosures.jsonl` count them."""
    kinds = [
        Crossed(record=word(kind), bytes=size, protected=declared[kind].protected)
        for kind, size in bytes_by_kind(content, declared).items()
    ]
    letters = [
        Crossed(record=word(one.kind), bytes=len(one.body), protected="encrypted", receiver=one.recipient)
        for one in content.letters
    ]
    return (*kinds, *letters)


def message_digest(record: Instruction | Reply, known: Digests | None = None) -> str:
    """SHA-256 (hex) over all that a message says, the same before it is sent and after it is read.

    Args:
        record: the message.
        known: digests of tensors that were met before, where several messages share them.
    """
    content = record.content
    names = tuple((name, id(value)) for name, value in sorted(content.tensors.items()))
    if known is None or names not in known:
        tensors = hashlib.sha256()
        for name, value in sorted(content.tensors.items()):
            tensors.update(canonical(name, str(value.dtype), str(tuple(value.shape))))
            tensors.update(_raw(value))
        if known is None:
            known = {}
        known[names] = tensors.digest()
    # Keys become texts before they are sorted, as they are where a message is read.
    values = json.dumps(json.loads(json.dumps(dict(content.values))), sort_keys=True, separators=(",", ":"))
    letters = [part for one in content.letters for part in (one.sender, one.recipient, one.kind, one.body)]
    place = (record.run, record.step, record.round, record.phase)
    return hashlib.sha256(canonical("message", *place, values, known[names], *letters)).hexdigest()


def _raw(value: Tensor) -> memoryview:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
