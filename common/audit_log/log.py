"""An audit log: lines that are only ever appended, by any number of processes, and sealed by their owner's key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedtag.common.audit_log.facts import EVENTS, Repaired, checked
from fedtag.common.audit_log.lines import (
    SEALS,
    Line,
    Tail,
    append_durably,
    digest,
    parsed,
    split,
    tail_of,
)
from fedtag.common.audit_log.seal import sealed
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.lock import locked
from fedtag.common.secure.private_file import private_folder

LOCK = ".lock"
LOCK_SECONDS = 60.0
COPIED = ("sealed", "key-changed")
"""Events whose lines are kept beside the log as well."""


def now() -> datetime:
    """The time that lines are given."""
    return datetime.now(UTC)


class AuditLog:
    """The log in a folder, a file a day; the chain goes on from file to file.

    The first line of a day comes after a seal of the days before. What a killed process left of a line stays, and a
    line behind it says so.

    Args:
        folder: of the log. None where nothing is kept: a simulation answers to nobody.
        owner: whose log it is, as the seals say.
        identity: gives the key that seals; asked for when a seal is due.
        durable: wait until the disk has each line.
    """

    def __init__(
        self,
        folder: Path | None,
        owner: str,
        identity: Callable[[], Identity],
        durable: bool = True,
    ) -> None:
        self.folder = folder
        self.owner = owner
        self._identity = identity
        self._durable = durable

    @property
    def kept(self) -> bool:
        """Whether there is a log."""
        return self.folder is not None

    @property
    def has_lines(self) -> bool:
        """Whether anything was ever written."""
        return self.folder is not None and self.folder.is_dir()

    def append(self, event: str, **facts: Any) -> None:
        """Append one line, and wait until the disk has it.

        Args:
            event: one of `EVENTS`.
            facts: as its model in `facts.py` declares them; None is left out.

        Raises:
            ConfigError: a fact is none that the event may have.
            RunError: another process holds the log for too long.
            OSError: the line cannot be written.
        """
        given = checked(event, {name: value for name, value in facts.items() if value is not None})
        if self.folder is not None:
            self._locked(self.folder, event, given.model_dump(mode="json", exclude_none=True))

    def seal(self) -> None:
        """Sign all lines so far, unless the last one is a seal, or there is none.

        Raises:
            ConfigError: the identity cannot be used.
            RunError, OSError: as of `append`.
        """
        if self.folder is not None:
            self._locked(self.folder, None, {})

    def _locked(self, folder: Path, event: str | None, facts: Mapping[str, Any]) -> None:
        private_folder(folder)
        with locked(folder / LOCK, LOCK_SECONDS):
            tail = self._repaired(folder)
            if event is None:
                self._seal(folder, tail)
                return
            today = f"{now():%Y-%m-%d}.jsonl"
            if tail.path is None:
                tail = Tail(folder / today, None)
            elif tail.path.name < today:  # a clock that goes back opens no older file
                tail = Tail(folder / today, self._seal(folder, tail).last)
            if event == "started":
                tail = self._with_key_change(folder, tail)
            self._write(tail, event, facts)

    def _repaired(self, folder: Path) -> Tail:
        """The end of the log, whole again: what is torn stays, and a line tells of it."""
        tail = tail_of(folder)
        if tail.last is not None and tail.last.event in COPIED:
            newest = next((line for line in reversed(copied(folder)) if line is not None), None)
            # A killed process wrote the line, and no copy; a log that was cut keeps the copies that tell of it.
            if newest is None or newest.n < tail.last.n:
                self._copied(folder, tail)
        if not tail.torn:
            return tail
        whole = b"\n".join(tail.torn)
        facts = Repaired(lines=len(tail.torn), bytes=len(whole), digest=digest(whole))
        return self._write(tail, "repaired", facts.model_dump(mode="json"))

    def _seal(self, folder: Path, tail: Tail) -> Tail:
        if tail.last is None or tail.last.event == "sealed":
            return tail
        tail = self._with_key_change(folder, tail)
        facts = sealed(self.owner, tail.lines, tail.head, self._identity())
        return self._copied(folder, self._write(tail, "sealed", facts))

    def _copied(self, folder: Path, tail: Tail) -> Tail:
        """Keep the last line beside the log as well, where it tells of lines that are cut off."""
        assert tail.last is not None
        copies = folder / SEALS
        cut = copies.exists() and not copies.read_bytes().endswith(b"\n")
        append_durably(copies, (b"\n" if cut else b"") + tail.last.encoded() + b"\n", self._durable)
        return tail

    def _with_key_change(self, folder: Path, tail: Tail) -> Tail:
        """Say first if the key is another one than that of the last seal."""
        old = last_key(folder)
        new = self._identity().public.sign.hex() if old else ""
        if old in ("", new):
            return tail
        return self._copied(folder, self._write(tail, "key-changed", {"old": old, "new": new}))

    def _write(self, tail: Tail, event: str, facts: Mapping[str, Any]) -> Tail:
        assert tail.path is not None
        assert event in EVENTS
        at = now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = Line(tail.lines + 1, at, tail.head, event, facts)
        append_durably(tail.path, (b"\n" if tail.open else b"") + line.encoded() + b"\n", self._durable)
        return Tail(tail.path, line)


def last_key(folder: Path) -> str:
    """The key that the log says last: of a seal, or of a change; empty if it says none."""
    for line in reversed(copied(folder)):
        if line is not None:
            return str(line.facts["key" if line.event == "sealed" else "new"])
    return ""


def copied(folder: Path) -> list[Line | None]:
    """The seals and changes of keys that are kept beside a log; None for one that a killed process left torn."""
    kept = folder / SEALS
    return [parsed(raw) for raw in split(kept.read_bytes())] if kept.exists() else []
