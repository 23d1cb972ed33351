"""What all members of a secure sum are told alike, in one digest, of which the masks of the sum are made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from fedtag.common.errors import ProtocolError
from fedtag.common.methods.records import Record
from fedtag.common.models.parameters import fingerprint
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.names import INGREDIENTS, INTRODUCE, JOIN
from fedtag.common.wire.records import Instruction

OWN = frozenset({INTRODUCE, INGREDIENTS, JOIN})
"""Values of an instruction that may differ between members: they ask who a site is, or say which block it joins, and
shape no answer. Letters are a client's own as well, and tensors of records that a method sends to those who lack them,
whose fingerprints all are told."""


def told_digest(instruction: Instruction, declared: Mapping[str, Record], settings: str) -> bytes:
    """SHA-256 over all that shapes an answer: run, exchange, values, tensors and settings.

    Members that were told different things compute different digests, and masks that do not cancel.

    Args:
        instruction: as the server sends it, or as a site received it.
        declared: kinds of records that may cross the network in the run, by name.
        settings: digest of those that decide results.

    Raises:
        ProtocolError: tensors for one client alone are not those whose fingerprint all are told.
    """
    content = instruction.content
    alone = {kind for kind in content.kinds if kind in declared and declared[kind].alone}
    for kind in sorted(alone):
        if content.values.get(kind) != fingerprint(content.section(kind)):
            raise ProtocolError(
                f"the tensors of '{kind}' are not those that all members were told of: the server needs the same fedtag"
            )
    shared = {name: value for name, value in content.tensors.items() if name.partition("/")[0] not in alone}
    values = {name: value for name, value in content.values.items() if name not in OWN}
    # Keys become texts before they are sorted, as they are where a message is read.
    text = json.dumps(json.loads(json.dumps(values)), sort_keys=True, separators=(",", ":"))
    parts = (instruction.run, instruction.step, instruction.round, instruction.phase)
    return hashlib.sha256(canonical("told", *parts, settings, text, fingerprint(shared))).digest()
