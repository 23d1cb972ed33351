"""disclosures.jsonl: what crossed the network, in lines that survive a writer that is killed.

    {"schema": 2}                                                       the first line
    {"group": 0, "names": ["client-00", "client-01"]}                   who a row below means by a number
    {"round": 1, "phase": "train", "kind": "update", "from": 0, …}      a row

A group is written once, before the first row that names it, so that names of clients do not come again in every row.
docs/disclosures.md is the contract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedtag.common.errors import RunError
from fedtag.server.tracking.disclosures import Disclosure
from fedtag.server.tracking.durable_files import RESTORE, append_lines, read_lines

SCHEMA = 2
Names = tuple[str, ...]


class DisclosureFile:
    """The file of one run, for reading and for adding to it.

    Args:
        path: of the file, which may be absent.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[Names, int] | None = None

    def append(self, rows: Sequence[Disclosure]) -> None:
        """Append rows in one write, so that of a killed writer's lines the last alone can be unfinished.

        Raises:
            RunError: the file that is there is of another schema, or damaged.
        """
        lines: list[Mapping[str, Any]] = []
        # What fails to be written is not known, and the file is asked again.
        known, self._known = self._known, None
        if known is None:
            began, groups, _ = self._read()
            known = {names: number for number, names in groups.items()}
            lines += () if began else ({"schema": SCHEMA},)
        for row in rows:
            for names in (row.senders, row.receivers):
                if names not in known:
                    known[names] = len(known)
                    lines.append({"group": known[names], "names": names})
            lines.append(_object(row, known))
        append_lines(self.path, lines)
        self._known = known

    def read(self) -> list[Disclosure]:
        """All rows; an unfinished last line is left out.

        Raises:
            RunError: the file is of another schema, or damaged.
        """
        return self._read()[2]

    def _read(self) -> tuple[bool, dict[int, Names], list[Disclosure]]:
        """Whether the file has begun, its groups and its rows."""
        records = read_lines(self.path)
        groups: dict[int, Names] = {}
        rows: list[Disclosure] = []
        if records and (found := records[0].get("schema", 1)) != SCHEMA:
            raise RunError(
                f"{self.path} has schema {found}, this fedtag reads {SCHEMA}; "
                "use the run with the version that made it, or do it anew"
            )
        for number, record in enumerate(records[1:], start=2):
            try:
                if "group" in record:
                    groups[_whole(record["group"])] = _names(record["names"])
                else:
                    rows.append(_row(record, groups))
            except (KeyError, TypeError, ValueError, RunError) as error:
                fault = f"{error} is missing" if isinstance(error, KeyError) else error
                raise RunError(
                    f"{self.path}, line {number} is no disclosure of schema {SCHEMA} ({fault}); {RESTORE}"
                ) from error
        return bool(records), groups, rows


def _object(row: Disclosure, groups: Mapping[Names, int]) -> dict[str, Any]:
    """The JSON object of a row; counts and sizes stand apart where not all crossings have the same."""
    apart = {"counts": row.counts, "sizes": row.sizes}
    return {
        "round": row.round,
        "phase": row.phase,
        "kind": row.kind,
        "from": groups[row.senders],
        "to": groups[row.receivers],
        "count": row.count,
        "bytes": row.bytes,
        "reveals": row.reveals,
        "protected": row.protected,
        **{name: numbers for name, numbers in apart.items() if len(numbers) > 1},
    }


def _row(record: Mapping[str, Any], groups: Mapping[int, Names]) -> Disclosure:
    senders, receivers = groups[record["from"]], groups[record["to"]]
    crossings = max(len(senders), len(receivers))
    counts, sizes = (
        _each(total, record[total], record.get(apart), crossings)
        for total, apart in (("count", "counts"), ("bytes", "sizes"))
    )
    return Disclosure(
        _whole(record["round"]),
        _text(record["phase"]),
        _text(record["kind"]),
        senders,
        receivers,
        counts,
        sizes,
        _text(record["reveals"]),
        record["protected"],
    )


def _each(name: str, total: object, apart: Any, crossings: int) -> tuple[int, ...]:
    """A number for each crossing, or one for all."""
    if apart is None:
        one, rest = divmod(_whole(total), crossings)
        if rest:
            raise ValueError(f"{name} is {total} in {crossings} equal parts")
        return (one,)
    numbers = tuple(map(_whole, apart))
    if sum(numbers) != total:
        raise ValueError(f"{name} is {total}, and its parts come to {sum(numbers)}")
    return numbers


def _names(value: object) -> Names:
    if not isinstance(value, list) or not value:
        raise TypeError(f"{value!r} is no list of names")
    return tuple(map(_text, value))


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
