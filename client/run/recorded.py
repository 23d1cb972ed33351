"""What a site's audit log says of one exchange: what came, what left, or that nothing did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtag.client.site.audit import site_log
from fedtag.client.site.evidence_folder import evidence_digest
from fedtag.client.site.site import Site
from fedtag.client.site.state import RUN
from fedtag.common.audit_log.facts import word
from fedtag.common.errors import ApprovalError, PolicyError
from fedtag.common.methods.crossing import all_bytes, crossed, message_digest
from fedtag.common.methods.records import Record
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wire.protocol import installed_release
from fedtag.common.wire.records import Instruction, Reply

CLOSE = "close"
"""The phase of a run's last exchange."""
MOST = 2**63 - 1


class Recorded:
    """One exchange in a site's log; nothing where the site keeps none.

    Args:
        site: whose log it is.
        instruction: that came; the server chose its names and numbers.
    """

    def __init__(self, site: Site, instruction: Instruction) -> None:
        self.site = site
        self.log = site_log(site)
        self.instruction = instruction
        run, step, number = instruction.run, instruction.step, instruction.round
        self.run = run if RUN.fullmatch(run) else word(f"?{run}").replace(".", "-")
        self.place: dict[str, Any] = {
            "run": self.run,
            "step": min(max(0, step), MOST),
            "round": min(max(0, number), MOST),
            "phase": word(instruction.phase),
        }

    def instructed(self) -> None:
        """An instruction came; written before anything is done for it."""
        if self.log.kept:
            size, digest = all_bytes(self.instruction.content), message_digest(self.instruction)
            self.log.append("instructed", **self.place, bytes=size, digest=digest)

    def began(self, settings: str, data: str, parent: str) -> None:
        """A run is new here: digests of its settings and of the site's data; the run that it extends, if it does."""
        release, facts = installed_release(), {"settings": settings, "data": data, "parent": parent or None}
        self.log.append("started", what="run", release=release, run=self.run, **facts)

    def refused(self, error: Exception) -> None:
        """It was not carried out, or waits for a person; the error's text stays out."""
        if isinstance(error, ApprovalError):
            self.log.append("pending", run=self.run)
            return
        rule = word(error.rule) if isinstance(error, PolicyError) and error.rule else None
        self.log.append("refused", **self.place, error=type(error).__name__, rule=rule)

    def answered(self, reply: Reply, declared: Mapping[str, Record], rounds: int) -> None:
        """A reply is about to leave; with the last ones of a run its evidence and release are noted, and all is sealed.

        What opens a closing sum comes after the closing phase itself.
        """
        if not self.log.kept:
            return
        records = crossed(reply.content, declared)
        size, digest = all_bytes(reply.content), message_digest(reply)
        self.log.append("answered", **self.place, bytes=size, digest=digest, records=records)
        if self.instruction.phase == CLOSE:
            self._closed()
        if self.instruction.round > rounds:
            self.log.seal()

    def _closed(self) -> None:
        files, size, digest = evidence_digest(self.site.evidence, self.instruction.run)
        if files:
            self.log.append("evidence", run=self.run, files=files, bytes=size, digest=digest)
        best, number = (
            self.instruction.content.section("best"),
            self.instruction.content.values.get("best_round"),
        )
        if best and type(number) is int and number >= 0:
            self.log.append("released", run=self.run, round=number, fingerprint=fingerprint(best))
