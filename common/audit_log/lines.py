"""The lines of an audit log as they lie on disk: JSON in one form, each with the SHA-256 of the line before."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.jsonl")
SEALS = "seals.jsonl"
"""Copies of all seals, which tell of lines that were cut off the log."""
NOTHING = "0" * 64
"""What the first line names in place of a line before it."""
KEYS = {"at", "before", "event", "facts", "n"}
BLOCK = 2**14


@dataclass(frozen=True)
class Line:
    """One line: its number from 1 over all files, its time (UTC), the digest of the line before, what it says."""

    n: int
    at: str
    before: str
    event: str
    facts: Mapping[str, Any]

    def encoded(self) -> bytes:
        """As it lies on disk, without the newline."""
        return json.dumps(vars(self), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True)
class Tail:
    """The end of a log.

    Args:
        path: its newest file; None without any.
        last: the last whole line; None without any.
        torn: what stands behind it: pieces of lines that a killed process left, oldest first.
        open: whether the last piece lacks its newline.
    """

    path: Path | None
    last: Line | None
    torn: tuple[bytes, ...] = ()
    open: bool = False

    @property
    def lines(self) -> int:
        """How many there are, pieces counted."""
        return (self.last.n if self.last else 0) + len(self.torn)

    @property
    def head(self) -> str:
        """Digest of the last of them."""
        if self.torn:
            return digest(self.torn[-1])
        return digest(self.last.encoded()) if self.last else NOTHING


def digest(line: bytes) -> str:
    """SHA-256 of a line without its newline, in hexadecimal."""
    return hashlib.sha256(line).hexdigest()


def days(folder: Path) -> list[Path]:
    """The files of a log, oldest first."""
    return sorted(path for path in folder.glob("*.jsonl") if DAY.fullmatch(path.name))


def parsed(raw: bytes) -> Line | None:
    """A line; None where the bytes are not exactly what would have been written for one."""
    try:
        value = json.loads(raw)
        if not isinstance(value, dict) or value.keys() != KEYS or type(value["n"]) is not int:
            return None
        texts = (value["at"], value["before"], value["event"])
        if not all(isinstance(text, str) for text in texts) or not isinstance(value["facts"], dict):
            return None
        line = Line(**value)
        return line if line.encoded() == raw else None
    except (ValueError, RecursionError):
        return None


def tail_of(folder: Path) -> Tail:
    """The end of the log in a folder, for whoever appends to it and holds its lock."""
    files = days(folder)
    torn: list[bytes] = []
    ends_open = False
    for path in reversed(files):
        last, pieces, cut = _ending(path)
        ends_open = cut if path is files[-1] else ends_open
        torn = [*pieces, *torn]
        if last is not None:
            return Tail(files[-1], last, tuple(torn), ends_open)
    return Tail(files[-1] if files else None, None, tuple(torn), ends_open)


def append_durably(path: Path, data: bytes, durable: bool) -> None:
    """Append bytes to a file that its owner alone may read, and wait until the disk has them."""
    new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new and durable:
        _keep_names(path.parent)


def split(content: bytes) -> Sequence[bytes]:
    """The lines of a file, the last one even if its newline is missing."""
    lines = content.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def _ending(path: Path) -> tuple[Line | None, list[bytes], bool]:
    """The last whole line of a file, the pieces behind it, and whether the newline of the last piece is missing."""
    whole = path.stat().st_size
    size = BLOCK
    with path.open("rb") as file:
        while True:
            file.seek(max(0, whole - size))
            pieces = file.read().split(b"\n")
            cut = pieces[-1] != b""
            ends = pieces if cut else pieces[:-1]
            # What the window begins with may be the rest of a line.
            first = 0 if size >= whole else 1
            for place in range(len(ends) - 1, first - 1, -1):
                line = None if cut and place == len(ends) - 1 else parsed(ends[place])
                if line is not None:
                    return line, ends[place + 1 :], cut
            if size >= whole:
                return None, ends, cut
            size *= 2


def _keep_names(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
