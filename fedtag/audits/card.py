"""Whether what a run's card and disclosures say is what the audit logs of those who took part say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedtag.common.audit_log.facts import Answer, Answered, Exchanged, Released, read, word
from fedtag.common.audit_log.lines import Line
from fedtag.common.audit_log.verification import Verified, lines_of, verify
from fedtag.common.errors import RunError
from fedtag.common.homes import home_folder
from fedtag.common.methods.base import WORKING
from fedtag.common.models.parameters import fingerprint
from fedtag.common.secure.roster import read_roster
from fedtag.server.tracking.model_card import CARD, model_card
from fedtag.server.tracking.run_directory import DISCLOSURES, MODEL, RunDirectory
from fedtag.server.tracking.run_log import AUDIT, file_digest

Row = tuple[int, str, str, int, str]
"""Round, who sent it, kind, bytes and protection of a record."""
SHOWN = 5


@dataclass(frozen=True)
class CardAudit:
    """What was found of a run.

    Args:
        run: its identifier.
        exchanges: that the coordinator's log tells of.
        replies: that it tells of.
        sites: those whose own logs were compared.
        logs: what verification found, by the folder of the log.
        faults: one sentence each.
    """

    run: str
    exchanges: int
    replies: int
    sites: tuple[str, ...]
    logs: Mapping[Path, Verified]
    faults: tuple[str, ...]


def audit_card(
    path: Path, log: Path, sites: Sequence[Path] = (), keys: Mapping[str, str] | None = None
) -> CardAudit:
    """Compare a run directory with the coordinator's log, and that with the logs of sites.

    The model, the disclosures and the card are the files whose digests are in the log, or follow from them; what was
    disclosed is what the log says came; what sites say left them is what came.

    Args:
        path: the run directory.
        log: folder of the coordinator's log.
        sites: folders of the logs of some sites.
        keys: signing keys of the sites, as of `verify`.

    Raises:
        RunError: there is no run, or no log that tells of its release.
    """
    run = RunDirectory.open(path)
    logs = {log: verify(log), **{folder: verify(folder, keys) for folder in sites}}
    faults = [f"{folder}: {fault}" for folder, found in logs.items() for fault in found.faults]
    identifier, released = _release(run, log)
    told = [line for line in lines_of(log) if line.facts.get("run") == identifier]
    exchanges = [one for line in told if isinstance(one := _facts(line), Exchanged)]
    faults += _files(run, released)
    faults += _disclosed(run, exchanges)
    names = []
    for folder in sites:
        lines = [line for line in lines_of(folder) if line.facts.get("run") == identifier]
        name, more = _site(folder, logs[folder].owner, lines, exchanges)
        names.append(name)
        faults += more
    replies = sum(answer.received is not None for one in exchanges for answer in one.answers)
    return CardAudit(identifier, len(exchanges), replies, tuple(names), logs, tuple(faults))


def home_log() -> Path:
    """Where the coordinator of this machine keeps its log."""
    return home_folder() / AUDIT


def site_keys(roster: Path | None) -> Mapping[str, str] | None:
    """The signing keys of a roster; None without one."""
    if roster is None:
        return None
    return {name: public.sign.hex() for name, public in read_roster(roster).items()}


def _facts(line: Line) -> object:
    return read(line.event, json.dumps(line.facts))


def _release(run: RunDirectory, log: Path) -> tuple[str, Released]:
    """The identifier of the run in a directory: that of the release with these files, or of any one of them."""
    wanted = {file_digest(run.path / name) for name in (MODEL, DISCLOSURES)} - {None}
    found = [
        one
        for line in lines_of(log)
        if line.event == "released" and isinstance(one := _facts(line), Released)
    ]
    for one in reversed(found):
        if {one.model, one.disclosures} & wanted:
            return one.run, one
    raise RunError(
        f"{log} tells of no release with the model or the disclosures of {run.path}: name the log of the coordinator "
        "that ran it; a simulation keeps none"
    )


def _files(run: RunDirectory, released: Released) -> list[str]:
    faults = []
    for name, logged in ((MODEL, released.model), (DISCLOSURES, released.disclosures)):
        if file_digest(run.path / name) != logged:
            faults.append(
                f"{name} is not the file whose SHA-256 the log has: it was changed, or is another run's"
            )
    if released.fingerprint is not None and (run.path / MODEL).is_file():
        try:
            same = fingerprint(run.read_model()) == released.fingerprint
        except RunError as error:
            faults.append(str(error))
        else:
            if not same:
                faults.append(f"{MODEL} does not hold the parameters whose fingerprint the log has")
    card = run.path / CARD
    # Audits write the card again; then it follows from files that the log has, and from theirs.
    if not card.is_file():
        faults.append(f"there is no {CARD}")
    elif file_digest(card) != released.card and card.read_text(encoding="utf-8") != model_card(run):
        faults.append(f"{CARD} says something else than the files beside it")
    return faults


def _disclosed(run: RunDirectory, exchanges: Sequence[Exchanged]) -> list[str]:
    stated: Counter[Row] = Counter(
        (row.round, one.sender, word(row.kind), one.bytes, row.protected)
        for row in run.read_disclosures()
        if not row.from_server and row.kind != WORKING
        for one in row.crossings
    )
    came: Counter[Row] = Counter(
        row
        for one in exchanges
        for answer in one.answers
        if answer.refused is None
        for row in _rows(one.round, answer)
    )
    more = [f"{shown(row)} came, and is not among the disclosures" for row in (came - stated).elements()]
    less = [f"{shown(row)} is among the disclosures, and did not come" for row in (stated - came).elements()]
    return [*_few(more), *_few(less)]


def _rows(number: int, answer: Answer) -> list[Row]:
    return [
        (number, answer.client or answer.node, one.record, one.bytes, one.protected) for one in answer.records
    ]


def shown(row: Row) -> str:
    """A record in words."""
    number, sender, kind, size, protected = row
    how = "" if protected == "none" else f", {protected}"
    return f"round {number}: '{kind}' of {sender} ({size} bytes{how})"


def _site(
    folder: Path, owner: str, lines: Sequence[Line], exchanges: Sequence[Exchanged]
) -> tuple[str, list[str]]:
    """Every reply that a site says left it came, and every one that came under its name left it."""
    left = {one.digest: one for line in lines if isinstance(one := _facts(line), Answered)}
    got = {answer.received: (one, answer) for one in exchanges for answer in one.answers if answer.received}
    name = owner or next((pair[1].client or "" for key, pair in got.items() if key in left), str(folder))
    faults = [
        f"{name} says that a reply left it in round {one.round}, {one.phase}, which did not come to the coordinator"
        for key, one in left.items()
        if key not in got
    ]
    faults += [
        f"a reply under the name {name} came in round {pair[0].round}, {pair[0].phase}, which its log does not have"
        for key, pair in got.items()
        if pair[1].client == name and key not in left
    ]
    faults += [
        f"{name} says that other records left it in round {one.round}, {one.phase}, than the coordinator's log has"
        for key, one in left.items()
        if key in got and got[key][1].records and Counter(got[key][1].records) != Counter(one.records)
    ]
    if not lines:
        faults.append(f"the log of {name} does not know the run")
    return name, _few(faults)


def _few(sentences: list[str]) -> list[str]:
    rest = len(sentences) - SHOWN
    return sentences if rest <= 0 else [*sentences[:SHOWN], f"and {rest} more like these"]
