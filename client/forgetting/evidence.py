"""Evidence that speaks of a node, taken out of a site's files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

from fedtag.client.evidence.condensed import links_file
from fedtag.client.evidence.measured import FILE
from fedtag.client.site.site import Site
from fedtag.client.site.whole_file import write_whole


def packs_of(site: Site, nodes: Collection[str]) -> int:
    """How many packs are of a node, or quote or selected it, of all runs; arguments as of `without_evidence_of`."""
    return sum(gone for _, _, gone in _concerned(site, nodes))


def without_evidence_of(site: Site, nodes: Collection[str]) -> None:
    """Remove every pack that is of a node, or quotes or selected it, of all runs.

    A pack whose neighbour is gone would no longer verify. Links of condensed nodes go by the order of their packs, so
    that a round's go with any of these; so do measurements of faithfulness, which are of nodes.

    Args:
        site: whose evidence it is.
        nodes: identifiers, as text.
    """
    for path, kept, _ in _concerned(site, nodes):
        number = int(path.stem.removeprefix("round-"))
        links_file(path.parent, number).unlink(missing_ok=True)
        write_whole(path, kept)
    (site.workspace / FILE).unlink(missing_ok=True)


def _concerned(site: Site, nodes: Collection[str]) -> Iterator[tuple[Path, bytes, int]]:
    """Files with packs that go: what stays of each, and how many go."""
    for path in sorted(site.evidence.rglob("round-*.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if not _speaks_of(line, nodes)]
        if len(kept) < len(lines):
            yield path, b"".join(kept), len(lines) - len(kept)


def _speaks_of(line: bytes, nodes: Collection[str]) -> bool:
    """Whether a pack is about one of the nodes; one that cannot be read may be."""
    try:
        pack = json.loads(line)
        parts = [pack, *pack["neighbours"], *pack["chunks"]]
        return any(str(part["node"]) in nodes for part in parts)
    except (ValueError, KeyError, TypeError):
        return True
