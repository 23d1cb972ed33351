"""Forgetting nodes: their rows, vectors, summaries, evidence and what runs keep, with a receipt in the log."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtag.client.data.folder import read_folder
from fedtag.client.forgetting.evidence import without_evidence_of
from fedtag.client.forgetting.folder import finish, journal, stage, without
from fedtag.client.run.agreement import SETTINGS
from fedtag.client.run.commitment import COUNTS
from fedtag.client.run.snapshot import DATA
from fedtag.client.site.audit import site_log
from fedtag.client.site.register import Register
from fedtag.client.site.retention import caches
from fedtag.client.site.site import Site
from fedtag.common.audit_log.facts import TakenPart
from fedtag.common.audit_log.verification import lines_of
from fedtag.common.errors import DataError

KEPT = frozenset(f"{name}.safetensors" for name in (SETTINGS, COUNTS, DATA))
"""What says of a run how it began; it holds nothing of nodes, and tells the run that the data are others now."""


@dataclass(frozen=True)
class Forgotten:
    """What became of one node.

    Args:
        node: its identifier, as it was given; it stands in no log.
        receipt: what stands for it in the log, in hexadecimal.
        runs: whose data it was in: their released models had part in it.
        shared: whether another node has the same text, whose vectors stay.
        earlier: whether it had been forgotten before, and nothing was left to do.
    """

    node: str
    receipt: str
    runs: tuple[TakenPart, ...]
    shared: bool = False
    earlier: bool = False


@dataclass(frozen=True)
class Forgetting:
    """What was removed, all nodes together; arguments as of the event `forgotten` of the log."""

    nodes: tuple[Forgotten, ...]
    rows: int = 0
    edges: int = 0
    packs: int = 0
    vectors: int = 0
    summaries: int = 0
    states: int = 0


def forget(site: Site, nodes: Sequence[str]) -> Forgetting:
    """Remove nodes from a site's folder and from all that was made of them there.

    Each step can be done again: whoever is killed meanwhile calls it again. The site's worker must not run.

    Args:
        site: whose nodes they are.
        nodes: identifiers, as text.

    Raises:
        DataError: a node is unknown, all nodes are named, or the folder cannot be written; then nothing was removed.
    """
    log, register = site_log(site), Register(site)
    finish(site.folder, lambda facts: log.append("forgotten", **_facts(facts)))
    graph = read_folder(site.folder, require_training=False).graph
    texts = {str(node): text for node, text in zip(graph.node_ids, graph.texts, strict=True)}
    named = tuple(dict.fromkeys(nodes))
    receipts = {node: register.receipt(node).hex() for node in named}
    before = _before(site)
    unknown = [node for node in named if node not in texts and receipts[node] not in before]
    if unknown:
        raise DataError(
            f"{site.folder} has no node {', '.join(map(repr, unknown[:5]))}, and none was forgotten there: name nodes "
            "as the column node_id has them"
        )
    wanted = [node for node in named if node in texts]
    done = [
        Forgotten(node, receipts[node], before[receipts[node]], earlier=True)
        for node in named
        if node not in texts
    ]
    if not wanted:
        return Forgetting(tuple(done))
    if len(wanted) == len(texts):
        raise DataError(f"{site.folder} would have no node left: remove the folder and the workspace instead")
    return _removed(site, wanted, texts, done)


def _removed(site: Site, wanted: Sequence[str], texts: dict[str, str], done: list[Forgotten]) -> Forgetting:
    log, register = site_log(site), Register(site)
    gone = frozenset(wanted)
    others = {text for node, text in texts.items() if node not in gone}
    shared = {node for node in wanted if texts[node] and texts[node] in others}
    runs = {node: register.runs_of(node) for node in wanted}
    taken = without(site.folder, gone)
    # Before anything else is removed it is certain that the rows can be.
    stage(site.folder, taken)
    only = sorted({texts[node] for node in wanted if texts[node] and node not in shared})
    stored, summaries, vectors = caches(site)
    counts = {
        "rows": len(taken.rows),
        "edges": taken.edges,
        "packs": without_evidence_of(site, gone),
        "vectors": stored.forget(only) + vectors.forget(only),
        "summaries": summaries.forget(only),
        "states": _without_states(site),
    }
    register.forget(wanted)
    (site.workspace / "worker" / "log").unlink(missing_ok=True)
    receipts = [
        {
            "receipt": register.receipt(node).hex(),
            **counts,
            "stays": int(node in shared),
            "runs": [part.model_dump() for part in runs[node]],
        }
        for node in wanted
    ]
    journal(site.folder, taken, receipts)
    finish(site.folder, lambda facts: log.append("forgotten", **_facts(facts)))
    found = [Forgotten(node, register.receipt(node).hex(), runs[node], node in shared) for node in wanted]
    return Forgetting((*found, *done), **counts)


def _facts(stored: dict[str, Any]) -> dict[str, Any]:
    return {**stored, "runs": tuple(TakenPart(**part) for part in stored["runs"])}


def _before(site: Site) -> dict[str, tuple[TakenPart, ...]]:
    """The runs of nodes that were forgotten earlier, by receipt."""
    folder: Path | None = site_log(site).folder
    if folder is None:
        return {}
    return {
        str(line.facts["receipt"]): tuple(TakenPart(**part) for part in line.facts.get("runs", ()))
        for line in lines_of(folder)
        if line.event == "forgotten"
    }


def _without_states(site: Site) -> int:
    """Remove what methods and parts keep of all runs, which goes by positions of nodes; returns how many files."""
    removed = 0
    for path in [one for one in site.state.glob("*/*") if one.name not in KEPT]:
        if path.is_dir():
            removed += sum(one.is_file() for one in path.rglob("*"))
            shutil.rmtree(path)
        else:
            path.unlink()
            removed += 1
    return removed
