"""disclosures.jsonl read by what docs/disclosures.md says of it and by nothing of fedtag, as who sent what to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def crossings(path: Path) -> list[dict[str, Any]]:
    """Of a run directory, or of the file itself: round, phase, kind, from, to, count, bytes, reveals, protected."""
    file = path if path.is_file() else path / "disclosures.jsonl"
    # Not every character that ends a line of text ends one of the file.
    first, *lines = (json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1])
    assert first == {"schema": 2}
    return list(_expanded(lines))


def _expanded(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    groups: dict[int, list[str]] = {}
    for line in lines:
        if "group" in line:
            groups[line["group"]] = line["names"]
            continue
        senders, receivers = groups[line["from"]], groups[line["to"]]
        number = max(len(senders), len(receivers))
        columns = {
            "from": senders * (number // len(senders)),
            "to": receivers * (number // len(receivers)),
            "count": line.get("counts", [line["count"] // number] * number),
            "bytes": line.get("sizes", [line["bytes"] // number] * number),
        }
        shared = {name: line[name] for name in ("round", "phase", "kind", "reveals", "protected")}
        for entries in zip(*columns.values(), strict=True):
            yield {**shared, **dict(zip(columns, entries, strict=True))}
