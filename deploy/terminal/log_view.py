"""Audit logs on the terminal."""

from __future__ import annotations

from pathlib import Path

from fedtag.audits.card import CardAudit
from fedtag.common.audit_log.verification import Verified
from fedtag.common.wording.counts import plural
from fedtag.deploy.terminal.console import notices, results, say


def show_log(path: Path, found: Verified) -> None:
    """What verification found: faults on stderr, the rest on stdout."""
    for sentence in found.faults:
        say(notices(), sentence, "red")
    for sentence in found.notes:
        say(notices(), sentence)
    verdict = plural(len(found.faults), "fault") if found.faults else "whole"
    say(
        results(),
        f"{path}: {plural(found.lines, 'line')}, {plural(found.seals, 'seal')}, {verdict}",
        "red" if found.faults else "green",
    )
    if found.owner:
        say(results(), f"sealed by {found.owner}, key {found.key}")
    if found.unsealed:
        say(
            results(),
            f"{plural(found.unsealed, 'line')} after the last seal: nothing tells of a change there yet",
        )


def show_card(path: Path, found: CardAudit) -> None:
    """What the comparison of a run with audit logs found."""
    for sentence in found.faults:
        say(notices(), sentence, "red")
    sites = f", and {plural(len(found.sites), 'log')} of sites" if found.sites else ""
    verdict = (
        plural(len(found.faults), "fault")
        if found.faults
        else "card, disclosures and model are those of the log"
    )
    style = "red" if found.faults else "green"
    say(
        results(),
        f"{path}: {plural(found.exchanges, 'exchange')}, {plural(found.replies, 'reply')}{sites}: {verdict}",
        style,
    )
