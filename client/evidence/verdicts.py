"""What an auditor says of a site's evidence, kept beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fedtag.client.site.whole_file import write_whole
from fedtag.common.errors import RunError

FILE = "audit-verdicts.json"
VERDICTS = ("convinces", "partly", "not")
"""What can be said of a node's evidence; the page has words for each."""
MOST_NOTE = 10_000
"""Characters of a note."""
_FIELDS = {"verdict", "note", "at"}
_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def read_verdicts(workspace: Path) -> dict[str, dict[str, Any]]:
    """Verdicts by the evidence that they are of, and by node, its identifier as text; empty if there are none.

    Raises:
        RunError: the file is damaged.
    """
    path = workspace / FILE
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not all(_are_verdicts(one) for one in found.values()):
            raise ValueError("it has another form")
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} holds no verdicts ({error}): restore it, or move it away") from error
    return found


def keep_verdicts(workspace: Path, evidence: str, verdicts: Mapping[str, Any]) -> None:
    """Write what an auditor says now of some nodes; what was said of others, and of other evidence, stays.

    Raises:
        ValueError: it has no such form.
        RunError: the file is damaged.
    """
    if not _are_verdicts(verdicts):
        raise ValueError(
            f"a verdict of a node has the fields verdict, note and at: {', '.join(VERDICTS)} or null; a text of "
            f"at most {MOST_NOTE:,} characters; a time like 2026-01-31T12:00:00Z or null"
        )
    found = read_verdicts(workspace)
    _write(workspace, found | {evidence: found.get(evidence, {}) | dict(verdicts)})


def without_verdicts_of(workspace: Path, nodes: Collection[str]) -> None:
    """Remove what was said of some nodes; a damaged file, which may speak of them, goes whole."""
    try:
        found = read_verdicts(workspace)
    except RunError:
        (workspace / FILE).unlink()
        return
    names = set(nodes)
    if any(names & said.keys() for said in found.values()):
        left = {
            evidence: {node: one for node, one in said.items() if node not in names}
            for evidence, said in found.items()
        }
        _write(workspace, left)


def _are_verdicts(said: object) -> bool:
    return isinstance(said, Mapping) and all(map(_is_verdict, said.values()))


def _is_verdict(one: object) -> bool:
    if not isinstance(one, dict) or one.keys() != _FIELDS:
        return False
    verdict, note, at = one["verdict"], one["note"], one["at"]
    return (
        (verdict is None or (isinstance(verdict, str) and verdict in VERDICTS))
        and isinstance(note, str)
        and len(note) <= MOST_NOTE
        and (at is None or (isinstance(at, str) and _AT.fullmatch(at) is not None))
    )


def _write(workspace: Path, verdicts: Mapping[str, Mapping[str, Any]]) -> None:
    text = json.dumps(verdicts, ensure_ascii=True, allow_nan=False, indent=1) + "\n"
    write_whole(workspace / FILE, text.encode())
