"""What the coordinator's audit log says of a run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from fedtag.common.audit_log.facts import Answer, word
from fedtag.common.audit_log.log import AuditLog
from fedtag.common.methods.crossing import Digests, crossed, message_digest
from fedtag.common.methods.records import Record
from fedtag.common.secure.identity import Identity
from fedtag.common.wire.protocol import installed_release
from fedtag.common.wire.records import Instruction, Reply
from fedtag.server.tracking.run_directory import DISCLOSURES, MODEL

COORDINATOR = "coordinator"
AUDIT, KEYS = "audit", "keys"
CARD = "README.md"
NO_REPLY, LEFT_OUT = "no-reply", "left-out"
_ERROR = re.compile(r"\b([A-Za-z]\w{0,60}(?:Error|Exception))\b")


def coordinator_log(home: Path) -> AuditLog:
    """The one log of all runs of a coordinator, in its home, sealed by a key that is made there as a site's is."""
    return AuditLog(home / AUDIT, COORDINATOR, lambda: Identity.at(home / KEYS))


class RunLog:
    """Of one run; None in place of a log where none is kept, as in a simulation."""

    def __init__(self, log: AuditLog | None = None) -> None:
        self.log = log

    def began(self, run: str, settings: str, parent: str) -> None:
        """A run begins, or goes on; the digest is that of its settings, the parent the run that it extends."""
        if self.log is not None:
            release = installed_release()
            facts = {"settings": settings, "parent": parent or None}
            self.log.append("started", what="run", release=release, run=run, **facts)

    def exchanged(
        self,
        instructions: Mapping[int, Instruction],
        replies: Mapping[int, Reply],
        troubles: Mapping[int, str],
        declared: Mapping[str, Record],
    ) -> None:
        """What every node was sent, and what came back, of use or not.

        Args:
            instructions: by node; nothing is written without any.
            replies: that could be read.
            troubles: why nodes are left out; of a reason, only the kind of an error is written.
            declared: kinds of records that may cross the network.
        """
        if self.log is None or not instructions:
            return
        known: Digests = {}
        answers = tuple(
            answer(node, one, replies.get(node), troubles.get(node), declared, known)
            for node, one in sorted(instructions.items())
        )
        first = next(iter(instructions.values()))
        self.log.append(
            "exchanged",
            run=first.run,
            step=first.step,
            round=first.round,
            phase=word(first.phase),
            answers=answers,
        )

    def released(self, run: str, number: int | None, fingerprint: str | None, folder: Path) -> None:
        """A run is over: digests of what it leaves in its directory; a seal follows."""
        if self.log is None:
            return
        files = {"model": MODEL, "card": CARD, "disclosures": DISCLOSURES}
        digests = {name: file_digest(folder / file) for name, file in files.items()}
        self.log.append("released", run=run, round=number, fingerprint=fingerprint, **digests)
        self.log.append("ended", run=run)
        self.log.seal()

    def stopped(self, run: str, error: BaseException) -> None:
        """A run stopped before its end; a seal follows."""
        if self.log is not None:
            self.log.append("ended", run=run, error=type(error).__name__)
            self.log.seal()


def answer(
    node: int,
    instruction: Instruction,
    reply: Reply | None,
    trouble: str | None,
    declared: Mapping[str, Record],
    known: Digests,
) -> Answer:
    """What crossed between the coordinator and one node.

    A reply of which records are undeclared is of no use; what it holds beside declared ones is not told apart.
    """
    refused = None
    if trouble is not None:
        found = _ERROR.search(trouble)
        refused = word(found[1]) if found else (NO_REPLY if reply is None else LEFT_OUT)
    name = f"node.{node}"
    sent = message_digest(instruction, known)
    if reply is None:
        return Answer(node=name, sent=sent, refused=refused)
    usable = all(kind in declared for kind in reply.content.kinds)
    usable = usable and all(one.kind in declared for one in reply.content.letters)
    return Answer(
        node=name,
        client=reply.client,
        sent=sent,
        received=message_digest(reply),
        records=crossed(reply.content, declared) if usable else (),
        refused=refused,
    )


def file_digest(path: Path) -> str | None:
    """SHA-256 (hex) of a file; None where there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
