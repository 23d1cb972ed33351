"""What two run directories have in common: tensors to the bit, rows but for what no two runs share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

TENSORS = ("model.safetensors", "condensed.safetensors")
DISCLOSURES = "disclosures.jsonl"
ROWS = ("metrics.jsonl", "clients.jsonl")
ARCHITECTURES = "architectures/*.json"
# Two runs of one revision differ in these. Replies tell times in digits, of which there are more or fewer, so the
# traffic differs, too, and what goes down with it is written in other settings' names in another revision.
UNLIKE = frozenset(
    {"seconds", "seconds_by_phase", "seconds_per_round", "bytes_up", "bytes_down", "peak_rss_mb", "versions"}
    | {"run", "flower_run"}
)
TIMED = "seconds"
"""The kind of record that tells times; its size in disclosures.jsonl differs for the same reason."""
ABSENT = "nothing"


def first_difference(one: Path, other: Path) -> str | None:
    """Where two run directories first differ, in words; None where they hold the same results."""
    return next(differences(one, other), None)


def differences(one: Path, other: Path) -> Iterator[str]:
    """All differences, those of models first, and last of all those of what is told of them."""
    for name in TENSORS:
        yield from _in_tensors(name, one / name, other / name)
    for name in ROWS:
        yield from _in_rows(name, one / name, other / name)
    found = {path.relative_to(run).as_posix() for run in (one, other) for path in run.glob(ARCHITECTURES)}
    for name in ("summary.json", *sorted(found)):
        documents = [_document(run / name) for run in (one, other)]
        yield from (f"{name}: {difference}" for difference in _in_values("", *documents))
    yield from _in_rows(DISCLOSURES, one / DISCLOSURES, other / DISCLOSURES)


def _in_tensors(name: str, one: Path, other: Path) -> Iterator[str]:
    if one.is_file() != other.is_file():
        yield f"{name} is there only in the {'first' if one.is_file() else 'second'}"
    if not (one.is_file() and other.is_file()):
        return
    mine, theirs = load_file(one), load_file(other)
    for tensor in sorted(mine.keys() | theirs.keys()):
        if tensor not in mine or tensor not in theirs:
            yield f"{name}: {tensor} is there only in the {'first' if tensor in mine else 'second'}"
        elif (mine[tensor].shape, mine[tensor].dtype) != (theirs[tensor].shape, theirs[tensor].dtype):
            forms = [f"{value.dtype}{list(value.shape)}" for value in (mine[tensor], theirs[tensor])]
            yield f"{name}: {tensor} is {' and '.join(forms)}"
        elif mine[tensor].tobytes() != theirs[tensor].tobytes():
            yield f"{name}: {tensor} differs in {_extent(mine[tensor], theirs[tensor])}"


def _extent(one: np.ndarray, other: np.ndarray) -> str:
    """How many numbers of two tensors are unlike, and by how much."""
    unlike = one != other
    gap = np.abs(one[unlike].astype(np.float64) - other[unlike].astype(np.float64)).max(initial=0.0)
    return f"{np.count_nonzero(unlike)} of {one.size} numbers, by {gap:.2g} at most"


def _in_rows(name: str, one: Path, other: Path) -> Iterator[str]:
    for number, both in enumerate(zip_longest(_rows(one), _rows(other), fillvalue=ABSENT), start=1):
        yield from (f"{name} row {number}: {difference}" for difference in _in_values("", *both))


def _rows(file: Path) -> list[dict[str, Any]]:
    """The lines of a file; of disclosures without what follows from times."""
    if not file.is_file():
        return []
    rows: list[dict[str, Any]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    if file.name != DISCLOSURES:
        return rows
    return [
        {
            key: value
            for key, value in row.items()
            if row.get("kind") != TIMED or key not in ("bytes", "sizes")
        }
        for row in rows
    ]


def _document(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else ABSENT


def _in_values(place: str, one: Any, other: Any) -> Iterator[str]:
    """The differing leaves of two JSON values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in UNLIKE:
                inner = f"{place}.{key}" if place else key
                yield from _in_values(inner, one.get(key, ABSENT), other.get(key, ABSENT))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for position, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _in_values(f"{place}[{position}]", mine, theirs)
    elif type(one) is not type(other) or one != other:
        yield f"{place or 'it'} is {_shown(one)} and {_shown(other)}"


def _shown(value: Any) -> str:
    text = value if value is ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
