"""Forgetting nodes: their rows, vectors, summaries, evidence and what runs keep, with a receipt in the log."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtag.client.data.folder import read_folder
from fedtag.client.forgetting.evidence import packs_of, without_evidence_of
from fedtag.client.forgetting.folder import Journal, Taken, finish, stage, without
from fedtag.client.run.agreement import SETTINGS
from fedtag.client.run.commitment import COUNTS
from fedtag.client.run.snapshot import DATA
from fedtag.client.site.audit import site_log
from fedtag.client.site.register import Register
from fedtag.client.site.retention import caches
from fedtag.client.site.site import Site
from fedtag.client.site.use import in_use
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

    Each step can be done again: whoever is killed meanwhile calls it again. Messages that come meanwhile wait.

    Args:
        site: whose nodes they are.
        nodes: identifiers, as text.

    Raises:
        DataError: a node is unknown, all nodes are named, or the folder cannot be written; then nothing was removed.
        RunError: the site is busy with a message for too long; nothing was removed.
    """
    with in_use(site, alone=True):
        return _forgotten(site, nodes)


def _forgotten(site: Site, nodes: Sequence[str]) -> Forgetting:
    _gone_on(site)
    register, texts = Register(site), _texts(site)
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
    register, gone = Register(site), frozenset(wanted)
    only, shared = _own_texts(gone, texts)
    runs = {node: register.runs_of(node) for node in wanted}
    taken = without(site.folder, gone)
    # Before anything else is removed it is certain that the rows can be.
    stage(site.folder, taken)
    stored, summaries, vectors = caches(site)
    counts = {
        "rows": len(taken.rows),
        "edges": taken.edges,
        "packs": packs_of(site, gone),
        "vectors": stored.store.count(only) + vectors.store.count(only),
        "summaries": summaries.store.count(only),
        "states": sum(one.is_file() for path in _states(site) for one in (path, *path.rglob("*"))),
    }
    receipts = [
        {
            "receipt": register.receipt(node).hex(),
            **counts,
            "stays": int(node in shared),
            "runs": [part.model_dump() for part in runs[node]],
        }
        for node in wanted
    ]
    # What is removed can no longer be told of: the receipts are on the disk before.
    Journal(receipts, sorted(taken.files), list(wanted)).write(site.folder)
    _cleared(site, wanted, only)
    _finished(site, receipts, taken)
    found = [Forgotten(node, register.receipt(node).hex(), runs[node], node in shared) for node in wanted]
    return Forgetting((*found, *done), **counts)


def _gone_on(site: Site) -> None:
    """Bring to its end what a call that was killed had begun, with the receipts of then."""
    begun = Journal.find(site.folder)
    if begun is None:
        return
    if begun.nodes:
        gone = frozenset(begun.nodes)
        # The folder may have been written since.
        taken = without(site.folder, gone)
        stage(site.folder, taken)
        _cleared(site, begun.nodes, _own_texts(gone, _texts(site))[0])
        _finished(site, begun.receipts, taken)
    else:
        finish(site.folder, lambda facts: site_log(site).append("forgotten", **_facts(facts)))


def _cleared(site: Site, nodes: Sequence[str], texts: Sequence[str]) -> None:
    """Remove nodes, and what was made of texts, from all but the folder of the data."""
    without_evidence_of(site, frozenset(nodes))
    for cache in caches(site):
        cache.store.forget(texts)
    _without_states(site)
    Register(site).forget(nodes)
    (site.workspace / "worker" / "log").unlink(missing_ok=True)


def _finished(site: Site, receipts: list[dict[str, Any]], taken: Taken) -> None:
    Journal(receipts, sorted(taken.files), []).write(site.folder)
    finish(site.folder, lambda facts: site_log(site).append("forgotten", **_facts(facts)))


def _texts(site: Site) -> dict[str, str]:
    graph = read_folder(site.folder, require_training=False).graph
    return {str(node): text for node, text in zip(graph.node_ids, graph.texts, strict=True)}


def _own_texts(gone: frozenset[str], texts: dict[str, str]) -> tuple[list[str], set[str]]:
    """The texts that only nodes that go have, and those of these nodes whose text another one has as well."""
    others = {text for node, text in texts.items() if node not in gone}
    there = {node: text for node, text in texts.items() if node in gone and text}
    return sorted(set(there.values()) - others), {node for node, text in there.items() if text in others}


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


def _states(site: Site) -> list[Path]:
    """What methods and parts keep of all runs, which goes by positions of nodes."""
    return [one for one in site.state.glob("*/*") if one.name not in KEPT]


def _without_states(site: Site) -> None:
    for path in _states(site):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
