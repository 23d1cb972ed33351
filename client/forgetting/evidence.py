"""Evidence that speaks of a node, taken out of a site's files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from fedtag.client.evidence.condensed import links_file
from fedtag.client.evidence.measured import FILE
from fedtag.client.evidence.pack_table import PackTable
from fedtag.client.evidence.store import read_packs, round_of, write_packs
from fedtag.client.evidence.verdicts import without_verdicts_of
from fedtag.client.site.site import Site
from fedtag.common.errors import DataError


def packs_of(site: Site, nodes: Collection[str]) -> int:
    """How many packs are of a node, or quote or selected it, of all runs; arguments as of `without_evidence_of`."""
    return sum(gone for _, _, gone in _concerned(site, nodes))


def without_evidence_of(site: Site, nodes: Collection[str]) -> None:
    """Remove every pack that is of a node, or quotes or selected it, of all runs.

    A pack whose neighbour is gone would no longer verify. Links of condensed nodes go by the order of their packs, so
    that a round's go with any of these; so do measurements of faithfulness, which are of nodes, and verdicts on these.

    Args:
        site: whose evidence it is.
        nodes: identifiers, as text.
    """
    for path, kept, _ in _concerned(site, nodes):
        number = round_of(path)
        links_file(path.parent, number).unlink(missing_ok=True)
        if kept is None:
            path.unlink()
        else:
            write_packs(path.parent, number, kept)
    (site.workspace / FILE).unlink(missing_ok=True)
    without_verdicts_of(site.workspace, nodes)


def _concerned(site: Site, nodes: Collection[str]) -> Iterator[tuple[Path, PackTable | None, int]]:
    """Files with packs that go: what stays of each, and how many go; a file that cannot be read goes whole."""
    for path in sorted(site.evidence.rglob("round-*.jsonl")):
        # Written by an earlier release, and read by none since.
        yield path, None, 1
    for path in sorted(site.evidence.rglob("round-*.parquet")):
        try:
            packs = read_packs(path)
        except DataError:
            yield path, None, 1
            continue
        gone = packs.speaks_of(set(nodes))
        if gone.any():
            yield path, packs.only(~gone), int(gone.sum())
