"""Whether an audit log is what was written: no line cut, changed, missing or moved, and sealed by whom it should be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedtag.common.audit_log.facts import Facts, KeyChanged, Repaired, Sealed, read
from fedtag.common.audit_log.lines import DAY, NOTHING, Line, days, digest, parsed, split
from fedtag.common.audit_log.log import copied
from fedtag.common.audit_log.seal import is_genuine
from fedtag.common.errors import ConfigError, RunError


@dataclass(frozen=True)
class Placed:
    """A line where it was found: what lies there, and what it says; None where that is no line."""

    where: str
    raw: bytes
    line: Line | None


@dataclass(frozen=True)
class Verified:
    """What was found.

    Args:
        lines: how many there are.
        seals: genuine ones.
        unsealed: lines behind the last seal, which whoever can write the folder can change unnoticed.
        owner: whose log it is, as its seals say; empty without a seal.
        key: that signed the last seal, in hexadecimal.
        faults: one sentence each, with the number of the line.
        notes: what was not checked, and what a crash left.
    """

    lines: int
    seals: int
    unsealed: int
    owner: str
    key: str
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def verify(path: Path, keys: Mapping[str, str] | None = None, kept: Sequence[Line] = ()) -> Verified:
    """Check a log.

    Args:
        path: its folder, or one of its files; of a file, what is before it is not checked.
        keys: signing keys in hexadecimal, by owner, as they are known otherwise; None leaves the keys unchecked.
        kept: seals of the log that were kept elsewhere.

    Raises:
        RunError: there is no log at the path.
    """
    whole = path.is_dir()
    files = days(path) if whole else [path] if DAY.fullmatch(path.name) and path.is_file() else []
    if not files:
        raise RunError(
            f"{path} is no audit log: name a folder with files YEAR-MONTH-DAY.jsonl, or one of them"
        )
    found = [
        Placed(f"line {number} of {file.name}", raw, parsed(raw))
        for file in files
        for number, raw in enumerate(split(file.read_bytes()), start=1)
    ]
    check = _Check(found)
    check.chain(whole)
    if whole:
        check.copies(path, kept)
        check.days_sealed(files)
    check.keys(keys)
    return check.result()


@dataclass
class _Check:
    found: Sequence[Placed]
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seals: list[tuple[Placed, Sealed]] = field(default_factory=list)
    genuine: int = 0
    torn: int = 0

    def __post_init__(self) -> None:
        self.facts: list[Facts | None] = [self._facts(one) for one in self.found]

    def _facts(self, one: Placed) -> Facts | None:
        if one.line is None:
            return None
        try:
            return read(one.line.event, json.dumps(one.line.facts))
        except ConfigError as error:
            self.faults.append(f"{one.where} was changed: {error}")
            return None

    def chain(self, whole: bool) -> None:
        """Numbers and digests from line to line, the pieces that repairs tell of, and the seals."""
        told = self._repaired()
        first = self.found[0].line if self.found else None
        if whole and first is not None and (first.n, first.before) != (1, NOTHING):
            self.faults.append(f"the beginning is missing: the first line that is there is line {first.n}")
        if not whole:
            self.notes.append("this is one file of a log: what is before it was not checked")
        number = (first.n if first is not None else 1) - 1
        for place, one in enumerate(self.found):
            before = self.found[place - 1] if place else None
            number = self._linked(before, one, number, place in told)
            facts = self.facts[place]
            if isinstance(facts, Sealed) and one.line is not None:
                self._sealed(one, one.line, facts)

    def _linked(self, before: Placed | None, one: Placed, number: int, told: bool) -> int:
        """Check one line against the one before it; returns its number."""
        line = one.line
        if line is None:
            if not told:
                self.faults.append(f"{one.where} (line {number + 1}) was changed: it is no line of a log")
            return number + 1
        if line.n > number + 1:
            lost = (
                f"line {number + 1} is" if line.n == number + 2 else f"lines {number + 1} to {line.n - 1} are"
            )
            self.faults.append(f"{lost} missing before {one.where}")
        elif line.n <= number:
            self.faults.append(
                f"{one.where} is line {line.n} and comes after line {number}: lines were reordered"
            )
        elif before is not None and line.before != digest(before.raw):
            self.faults.append(
                f"{before.where} (line {number}) was changed: the line after it has the digest of another one"
            )
        return line.n

    def _sealed(self, one: Placed, line: Line, seal: Sealed) -> None:
        if not is_genuine(seal):
            self.faults.append(f"{one.where} (line {line.n}): the seal was not made by the key that it names")
        elif (seal.lines, seal.head) != (line.n - 1, line.before):
            self.faults.append(
                f"{one.where} (line {line.n}): the seal is of other lines than those before it"
            )
        else:
            self.genuine += 1
        self.seals.append((one, seal))

    def _repaired(self) -> set[int]:
        """Places of pieces that the line behind them tells of."""
        told: set[int] = set()
        for place, facts in enumerate(self.facts):
            if not isinstance(facts, Repaired):
                continue
            pieces = self.found[max(0, place - facts.lines) : place]
            whole = b"\n".join(one.raw for one in pieces)
            where = self.found[place].where
            if (len(whole), digest(whole)) != (facts.bytes, facts.digest):
                self.faults.append(f"the pieces before {where} were changed since they were found torn")
                continue
            told |= set(range(place - len(pieces), place))
            self.torn += facts.lines
            self.notes.append(f"a process was killed as it wrote the line before {where}; the log says so")
        return told

    def copies(self, folder: Path, kept: Sequence[Line]) -> None:
        """Seals that lie beside the log, and those kept elsewhere, are in the log."""
        there = {one.line.n: one.raw for one in self.found if one.line is not None}
        last = max(there, default=0)
        beside = copied(folder)
        if None in beside:
            self.notes.append("a copy of a seal beside the log cannot be read")
        for line in (line for line in [*beside, *kept] if line is not None):
            if line.n > last:
                self.faults.append(
                    f"the end is cut off: the log ends with line {last}, and line {line.n} was a seal"
                )
            elif there.get(line.n) != line.encoded():
                self.faults.append(f"line {line.n} was a seal, and is another line now")

    def days_sealed(self, files: Sequence[Path]) -> None:
        """Each file but the newest ends with a seal."""
        for file in files[:-1]:
            last = [one for one in self.found if one.where.endswith(f" of {file.name}")][-1:]
            if last and (last[0].line is None or last[0].line.event != "sealed"):
                self.faults.append(
                    f"{file.name} does not end with a seal: lines were cut off, or the seal was"
                )

    def keys(self, known: Mapping[str, str] | None) -> None:
        """The seals are of one owner, whose key is the known one, or became it in a change that is in the log."""
        owners = sorted({seal.owner for _, seal in self.seals})
        if len(owners) > 1:
            self.faults.append(f"the seals name several owners: {', '.join(owners)}")
        current = self.seals[0][1].key if self.seals else ""
        for one, facts in zip(self.found, self.facts, strict=True):
            if isinstance(facts, KeyChanged):
                if current not in ("", facts.old):
                    self.faults.append(f"{one.where} tells of a change of a key that was not in use")
                current = facts.new
            elif isinstance(facts, Sealed) and facts.key != current:
                self.faults.append(
                    f"{one.where}: the seal is by another key, and no change of it is in the log"
                )
                current = facts.key
        if known is None:
            self.notes.append("the key of the seals was not checked: give a roster, or a key")
        elif self.seals:
            owner = owners[0]
            if owner not in known:
                self.faults.append(f"no key is known of {owner}, whose log this says it is")
            elif self.seals[-1][1].key != known[owner] or current != known[owner]:
                self.faults.append(f"the last seal is not by the known key of {owner}")

    def result(self) -> Verified:
        numbers = [one.line.n for one in self.found if one.line is not None]
        last = self.seals[-1] if self.seals else None
        sealed = last[0].line.n if last and last[0].line else 0
        unsealed = len([n for n in numbers if n > sealed])
        return Verified(
            len(self.found),
            self.genuine,
            unsealed,
            last[1].owner if last else "",
            last[1].key if last else "",
            tuple(self.faults),
            tuple(self.notes),
        )


def lines_of(folder: Path) -> Iterator[Line]:
    """All lines of a log, oldest first, without what a crash left of one."""
    for file in days(folder):
        for raw in split(file.read_bytes()):
            line = parsed(raw)
            if line is not None:
                yield line
