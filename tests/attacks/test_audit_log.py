"""Whoever can write the folder of an audit log changes it; its verification, with the owner's key, says where.

The control of each is the same log untouched, and, for the seals, what an attacker does who has the key.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedtag.common.audit_log import log as log_module
from fedtag.common.audit_log.lines import NOTHING, SEALS, Line, days, digest, parsed
from fedtag.common.audit_log.log import AuditLog
from fedtag.common.audit_log.seal import sealed
from fedtag.common.audit_log.verification import Verified, lines_of, verify
from fedtag.common.errors import ConfigError, RunError
from fedtag.common.secure.identity import Identity

OWNER = "north"


class Kept:
    """A log of three days in a folder: lines 1–4 and a seal, 6–8 and a seal, 10–12."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = place / "audit"
        self.identity = Identity.at(place / "keys")
        self.log = AuditLog(self.folder, OWNER, lambda: self.identity, durable=False)
        self.keys = {OWNER: self.identity.public.sign.hex()}
        start = datetime(2026, 3, 1, 12, tzinfo=UTC)
        for day, count in enumerate((4, 3, 3)):
            patch.setattr(log_module, "now", lambda day=day: start + timedelta(days=day))
            for step in range(count):
                self.log.append("refused", run="run-1", step=step, rule="hours")

    def verified(self) -> Verified:
        return verify(self.folder, self.keys)

    @property
    def raw(self) -> list[bytes]:
        return [one for file in days(self.folder) for one in file.read_bytes().splitlines()]

    def rewrite(self, name: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
        path = self.folder / name
        path.write_bytes(b"".join(one + b"\n" for one in change(path.read_bytes().splitlines())))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    return Kept(tmp_path, monkeypatch)


FIRST, SECOND, THIRD = "2026-03-01.jsonl", "2026-03-02.jsonl", "2026-03-03.jsonl"


def test_what_nobody_touched_is_whole(kept: Kept) -> None:
    found = kept.verified()
    assert (found.lines, found.seals, found.unsealed, found.owner) == (12, 2, 3, OWNER)
    assert found.faults == ()
    assert found.notes == ()
    assert [path.name for path in days(kept.folder)] == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize("number", range(1, 12))
def test_a_changed_byte_is_found_in_its_line(kept: Kept, number: int) -> None:
    name, place = next(
        (path.name, place)
        for path in days(kept.folder)
        for place, raw in enumerate(path.read_bytes().splitlines())
        if json.loads(raw)["n"] == number
    )

    def change(lines: list[bytes]) -> list[bytes]:
        lines[place] = lines[place].replace(b'12:00:00.000Z"', b'12:00:00.001Z"')
        return lines

    kept.rewrite(name, change)
    assert f"line {place + 1} of {name} (line {number}) was changed" in "\n".join(kept.verified().faults)


def test_another_spelling_of_a_line_is_a_change_even_of_the_last(kept: Kept) -> None:
    kept.rewrite(THIRD, lambda lines: [*lines[:-1], lines[-1].replace(b'"n":', b'"n": ')])
    assert kept.verified().faults == (f"line 3 of {THIRD} (line 12) was changed: it is no line of a log",)


def test_a_removed_line_is_named(kept: Kept) -> None:
    kept.rewrite(SECOND, lambda lines: [lines[0], *lines[2:]])
    assert f"line 7 is missing before line 2 of {SECOND}" in kept.verified().faults


def test_reordered_lines_are_named(kept: Kept) -> None:
    kept.rewrite(FIRST, lambda lines: [lines[0], lines[2], lines[1], *lines[3:]])
    faults = "\n".join(kept.verified().faults)
    assert f"line 3 of {FIRST} is line 2 and comes after line 3: lines were reordered" in faults


def test_a_removed_file_is_named(kept: Kept) -> None:
    (kept.folder / SECOND).unlink()
    assert f"lines 6 to 9 are missing before line 1 of {THIRD}" in kept.verified().faults


def test_a_missing_beginning_is_named(kept: Kept) -> None:
    (kept.folder / FIRST).unlink()
    faults = "\n".join(kept.verified().faults)
    assert "the beginning is missing: the first line that is there is line 6" in faults


def test_a_tail_that_is_cut_with_its_seal_is_told_by_the_copies_of_seals(kept: Kept) -> None:
    (kept.folder / THIRD).unlink()
    kept.rewrite(SECOND, lambda lines: lines[:-2])
    assert "the end is cut off: the log ends with line 7, and line 9 was a seal" in kept.verified().faults


def test_a_tail_that_is_cut_with_all_copies_is_told_by_a_seal_kept_elsewhere(kept: Kept) -> None:
    elsewhere = [line for line in map(parsed, kept.raw) if line is not None and line.event == "sealed"]
    (kept.folder / THIRD).unlink()
    (kept.folder / SECOND).unlink()
    kept.rewrite(SEALS, lambda lines: lines[:1])
    # Nothing in the folder tells: what is there was the whole log once.
    assert kept.verified().faults == ()
    faults = verify(kept.folder, kept.keys, elsewhere).faults
    assert faults == ("the end is cut off: the log ends with line 5, and line 9 was a seal",)


def test_a_file_in_place_of_a_newer_one_is_told(kept: Kept) -> None:
    older = (kept.folder / SECOND).read_bytes().splitlines()[:2]
    kept.rewrite(SECOND, lambda lines: older)
    assert f"lines 8 to 9 are missing before line 1 of {THIRD}" in kept.verified().faults


@pytest.mark.parametrize("left", [0, 7])
@pytest.mark.parametrize("seals", [1, 2, 3])
def test_a_process_killed_between_a_seal_and_its_copy_leaves_an_honest_log(
    tmp_path: Path, seals: int, left: int
) -> None:
    log, keys = AuditLog(tmp_path / "audit", OWNER, lambda: identity, durable=False), {}
    copies = tmp_path / "audit" / SEALS
    for number in range(seals):
        # The last of three is by another key, which the log says in a line of its own.
        identity = Identity.at(tmp_path / ("new" if number == 2 else "old"))
        keys = {OWNER: identity.public.sign.hex()}
        log.append("refused", run="run-1", step=number, rule="hours")
        log.seal()
    whole = copies.read_bytes()
    *earlier, last = whole.splitlines(keepends=True)
    copies.write_bytes(b"".join(earlier) + last[:left])

    log.append("started", what="run", release="1.0", run="run-2")

    assert [line for line in copies.read_bytes().splitlines(keepends=True) if parsed(line[:-1])] == [
        *earlier,
        last,
    ]
    found = verify(tmp_path / "audit", keys)
    assert (found.faults, found.seals) == ((), seals)


def test_a_process_killed_between_a_change_of_key_and_its_copy_tells_of_it_once(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit", OWNER, lambda: identity, durable=False)
    identity = Identity.at(tmp_path / "old")
    log.append("refused", run="run-1", rule="hours")
    log.seal()
    identity = Identity.at(tmp_path / "new")
    log.append("started", what="run", release="1.0", run="run-2")
    copies, newest = tmp_path / "audit" / SEALS, days(tmp_path / "audit")[-1]
    # The kill: neither the copy of the change nor the line behind it were written.
    for path in (copies, newest):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    log.append("started", what="run", release="1.0", run="run-2")
    log.seal()
    events = [line.event for line in lines_of(tmp_path / "audit")]
    assert events == ["refused", "sealed", "key-changed", "started", "sealed"]
    assert verify(tmp_path / "audit", {OWNER: identity.public.sign.hex()}).faults == ()


def test_lines_after_the_last_seal_are_counted_as_open_to_change(kept: Kept) -> None:
    kept.rewrite(THIRD, lambda lines: lines[:-2])
    found = kept.verified()
    assert found.faults == ()
    assert found.unsealed == 1
    kept.log.seal()
    assert kept.verified().unsealed == 0


def chained_anew(kept: Kept, change: Callable[[Line], Line | None], identity: Identity | None) -> None:
    """Write the log again with changed lines and right digests; with an identity, with right seals as well."""
    last: Line | None = None
    copies = []
    for path in days(kept.folder):
        lines = []
        for raw in path.read_bytes().splitlines():
            old = parsed(raw)
            assert old is not None
            line = change(old)
            if line is None:
                continue
            count, head = (0, NOTHING) if last is None else (last.n, digest(last.encoded()))
            facts = line.facts
            if line.event == "sealed" and identity is not None:
                facts = sealed(OWNER, count, head, identity)
            last = replace(line, n=count + 1, before=head, facts=facts)
            lines.append(last.encoded())
            copies += [last.encoded()] if line.event == "sealed" else []
        kept.rewrite(path.name, lambda _, lines=lines: lines)
    kept.rewrite(SEALS, lambda _: copies)


def unsaid(line: Line) -> Line | None:
    return None if line.n == 2 else line


def other(line: Line) -> Line:
    return replace(line, facts={**line.facts, "rule": "bytes"}) if line.n == 2 else line


@pytest.mark.parametrize("change", [unsaid, other])
def test_a_log_that_is_chained_anew_fails_by_its_seals(
    kept: Kept, change: Callable[[Line], Line | None], tmp_path: Path
) -> None:
    chained_anew(kept, change, None)
    assert "the seal is of other lines than those before it" in "\n".join(kept.verified().faults)
    # Seals by another key are by another key.
    chained_anew(kept, lambda line: line, Identity.at(tmp_path / "other"))
    assert f"the last seal is not by the known key of {OWNER}" in kept.verified().faults
    # Who has the key can write another history: the control, and the reason to keep seals elsewhere.
    chained_anew(kept, lambda line: line, kept.identity)
    assert kept.verified().faults == ()


def test_seals_that_are_left_out_of_a_log_chained_anew_are_missed(kept: Kept) -> None:
    chained_anew(kept, lambda line: None if line.event == "sealed" else other(line), None)
    faults = kept.verified().faults
    assert f"{FIRST} does not end with a seal: lines were cut off, or the seal was" in faults
    assert f"{SECOND} does not end with a seal: lines were cut off, or the seal was" in faults


def test_a_change_of_the_key_stands_in_the_log(kept: Kept, tmp_path: Path) -> None:
    new = Identity.at(tmp_path / "new")
    kept.log = AuditLog(kept.folder, OWNER, lambda: new, durable=False)
    for _ in range(2):
        kept.log.append("started", what="run", release="1.0", run="run-2")
    kept.log.seal()
    events = [line.event for line in lines_of(kept.folder)][12:]
    assert events == ["key-changed", "started", "started", "sealed"]
    assert kept.verified().faults == (f"the last seal is not by the known key of {OWNER}",)
    kept.keys = {OWNER: new.public.sign.hex()}
    assert kept.verified().faults == ()
    kept.keys = {"south": new.public.sign.hex()}
    assert kept.verified().faults == (f"no key is known of {OWNER}, whose log this says it is",)


def test_a_key_that_changes_without_a_word_is_a_fault(kept: Kept, tmp_path: Path) -> None:
    new = Identity.at(tmp_path / "new")
    (kept.folder / SEALS).unlink()
    AuditLog(kept.folder, OWNER, lambda: new, durable=False).seal()
    kept.keys = {OWNER: new.public.sign.hex()}
    assert kept.verified().faults == (
        f"line 4 of {THIRD}: the seal is by another key, and no change of it is in the log",
    )


def test_one_file_is_checked_by_itself(kept: Kept) -> None:
    found = verify(kept.folder / SECOND, kept.keys)
    assert found.faults == ()
    assert found.notes == ("this is one file of a log: what is before it was not checked",)
    kept.rewrite(SECOND, lambda lines: [lines[0], *lines[2:]])
    assert verify(kept.folder / SECOND, kept.keys).faults
    with pytest.raises(RunError, match="is no audit log: name a folder"):
        verify(kept.folder / SEALS, kept.keys)


def writes(folder: Path, count: int) -> None:
    log = AuditLog(folder, OWNER, lambda: Identity.at(folder.parent / "keys"))
    for step in range(count):
        log.append("refused", run=f"run-{os.getpid()}", step=step)


def test_processes_that_write_at_once_leave_one_chain(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=writes, args=(folder, 20)) for _ in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert [one.exitcode for one in writers] == [0] * 4
    found = verify(folder)
    assert (found.lines, found.faults) == (80, ())
    steps: dict[str, list[int]] = {}
    for line in lines_of(folder):
        steps.setdefault(str(line.facts["run"]), []).append(line.facts["step"])
    assert list(steps.values()) == [list(range(20))] * 4


def test_without_the_lock_they_would_not(tmp_path: Path) -> None:
    """The control: two that read the same end write two lines of one number."""
    log = AuditLog(tmp_path / "audit", OWNER, lambda: Identity.at(tmp_path / "keys"), durable=False)
    log.append("refused", rule="hours")
    tail = log_module.tail_of(tmp_path / "audit")
    for rule in ("bytes", "parts"):
        log._write(tail, "refused", {"rule": rule})
    assert "lines were reordered" in "\n".join(verify(tmp_path / "audit").faults)


WRITER = """
import sys
from pathlib import Path
from fedtag.common.audit_log.log import AuditLog
from fedtag.common.secure.identity import Identity
place = Path(sys.argv[1])
log = AuditLog(place / "audit", "north", lambda: Identity.at(place / "keys"))
print("ready", flush=True)
while True:
    log.append("refused", rule="hours")
"""


def test_a_process_that_is_killed_as_it_writes_loses_no_earlier_line(tmp_path: Path) -> None:
    for turn in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.05 + 0.011 * turn)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        found = verify(tmp_path / "audit")
        assert found.lines > 0
        assert found.faults == ()


@pytest.mark.parametrize("cut", [1, 40, 10_000])
def test_a_torn_line_stays_and_the_log_says_so(kept: Kept, cut: int) -> None:
    newest = days(kept.folder)[-1]
    before = newest.read_bytes()
    kept.log.append("refused", rule="bytes")
    piece = newest.read_bytes()[len(before) : -1][:cut]
    newest.write_bytes(before + piece)
    # Until somebody writes, it is a fault; a line that lacks its newline alone is whole.
    assert bool(kept.verified().faults) == (cut < 10_000)
    kept.log.append("refused", rule="parts")
    assert newest.read_bytes().startswith(before + piece + b"\n")
    found = kept.verified()
    assert found.faults == ()
    assert found.notes == (
        f"a process was killed as it wrote the line before line 5 of {THIRD}; the log says so",
    )
    assert [line.event for line in lines_of(kept.folder)][-2:] == ["repaired", "refused"]
    # The piece is bound like any other line.
    newest.write_bytes(newest.read_bytes().replace(piece + b"\n", piece[:-1] + b"#\n", 1))
    assert kept.verified().faults


def test_who_is_killed_while_repairing_is_repaired_as_well(kept: Kept) -> None:
    newest = days(kept.folder)[-1]
    newest.write_bytes(newest.read_bytes() + b'{"at":"20\n{"at":"2026-0')
    kept.log.append("refused", rule="parts")
    assert kept.verified().faults == ()
    repaired = [line for line in lines_of(kept.folder) if line.event == "repaired"]
    assert [line.facts["lines"] for line in repaired] == [2]
    assert list(lines_of(kept.folder))[-1].n == 16


@pytest.mark.parametrize(
    "facts",
    [
        {"rule": "the patient was born in Ulm"},
        {"rule": "x" * 65},
        {"text": "word"},
        {"run": "run 1"},
        {"step": -1},
        {"step": "1"},
        {"phase": "Grüße"},
        {"error": ["a"]},
    ],
)
def test_no_text_becomes_a_fact(kept: Kept, facts: dict[str, object]) -> None:
    before = kept.raw
    with pytest.raises(ConfigError, match="the event 'refused' of an audit log cannot hold") as caught:
        kept.log.append("refused", **facts)
    assert not any(str(value) in str(caught.value) for value in facts.values() if len(str(value)) > 2)
    assert kept.raw == before
    with pytest.raises(ConfigError, match=re.escape("knows no event 'said'")):
        kept.log.append("said")


def test_a_line_with_a_text_in_it_is_a_fault_though_the_chain_is_right(kept: Kept) -> None:
    kept.log._write(log_module.tail_of(kept.folder), "refused", {"rule": "born in Ulm"})
    assert "cannot hold rule" in "\n".join(kept.verified().faults)


def test_files_are_for_their_owner_alone(kept: Kept) -> None:
    assert kept.folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept.folder.iterdir())


def test_a_replaced_folder_is_told_by_a_seal_kept_elsewhere(kept: Kept, tmp_path: Path) -> None:
    shutil.copytree(kept.folder, tmp_path / "older")
    kept.log.append("refused", rule="bytes")
    kept.log.seal()
    elsewhere: Sequence[Line] = [list(lines_of(kept.folder))[-1]]
    assert verify(kept.folder, kept.keys, elsewhere).faults == ()
    found = verify(tmp_path / "older", kept.keys, elsewhere)
    assert found.faults == ("the end is cut off: the log ends with line 12, and line 14 was a seal",)
