"""Packs that may break a rule, found column by column, so that of a million only these are read one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from fedtag.client.evidence.pack_table import PackTable, owners
from fedtag.client.evidence.source_texts import SourceTexts

TOLERANCE = 1e-4
"""By which weights that should sum to 1 may miss it."""
_ROUNDING = 1e-5
"""Of the sums here: what is nearer to the tolerance is looked at again."""

Columns = dict[str, NDArray[Any]]


def suspects(
    packs: PackTable, sources: SourceTexts, hop_budgets: Sequence[int], chunk_budget: int
) -> Bool[np.ndarray, " packs"]:
    """The packs for which `pack_violations` may find something; it finds nothing for the others.

    Args:
        packs, sources, hop_budgets, chunk_budget: as there.
    """
    nodes, count = packs.nodes, len(packs)
    places = np.fromiter(map(sources.place, nodes), np.int64, len(nodes))
    known = places >= 0
    near, quoted = packs.neighbours, packs.chunks
    odd = ~known[:count] | _misstated(packs, sources, places[:count])
    odd[owners(near)[_strange(near, known)]] = True
    odd[owners(quoted)[_altered(packs, sources, known)]] = True
    codes, _ = packs.codes("node", whole=True)
    odd[owners(near)[_again(near, codes)]] = True
    odd[owners(quoted)[_again(quoted, codes, quoted["start"], quoted["end"])]] = True
    if hop_budgets and hop_budgets[0]:
        odd |= np.bincount(owners(near)[near["hop"] == 0], minlength=count) == 0
    if chunk_budget:
        odd |= np.bincount(owners(quoted), minlength=count) == 0
    return odd | _overspent(near, count, hop_budgets) | _uneven(quoted, count, chunk_budget)


def _misstated(
    packs: PackTable, sources: SourceTexts, places: Int[np.ndarray, " packs"]
) -> Bool[np.ndarray, " packs"]:
    """Shares of the evidence beyond [0, 1], predictions that are no class, and labels that the folder has not."""
    share = packs.table["evidence_share"][: len(packs)]
    value = packs.numbers("evidence_share")
    odd = share.is_valid().to_numpy() & ~((value >= 0) & (value <= 1))
    if sources.known is None:
        return odd
    place = {name: code for code, name in enumerate(sources.known.classes)}
    said, names = packs.codes("prediction")
    odd |= np.array([place.get(name, -2) for name in names] + [-1])[said] < 0
    said, names = packs.codes("label")
    label = np.array([place.get(name, -2) for name in names] + [-1])[said]
    return odd | ((places >= 0) & (label != np.asarray(sources.known.labels)[places]))


def _strange(near: Columns, known: Bool[np.ndarray, " rows"]) -> Bool[np.ndarray, " entries"]:
    """Neighbours that are not in the folder, and others than the node at hop 0."""
    return ~known[near["row"]] | ((near["hop"] == 0) & (near["row"] != owners(near)))


def _again(
    entries: Columns, codes: Int[np.ndarray, " rows"], *more: Int[np.ndarray, " entries"]
) -> Bool[np.ndarray, " entries"]:
    """Entries of a pack that name the same node, and the same of `more`, as another one of it."""
    keys = owners(entries) * len(codes) + codes[entries["row"]]
    order = np.lexsort((*more, keys))
    found = np.zeros(len(keys), bool)
    found[order[1:]] = np.all([np.diff(column[order]) == 0 for column in (keys, *more)], axis=0)
    return found


def _altered(
    packs: PackTable, sources: SourceTexts, known: Bool[np.ndarray, " rows"]
) -> Bool[np.ndarray, " entries"]:
    """Spans that are not in the text that the pack names, or whose source it did not select."""
    near, quoted = packs.neighbours, packs.chunks
    lengths = np.full(len(known), -1)
    digests = packs.table["sha256"].to_pylist()
    for row in np.unique(quoted["row"]).tolist():
        text = sources.text(packs.nodes[row])
        if (
            text is not None
            and hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() == digests[row]
        ):
            lengths[row] = len(text)
    rows = len(known)
    selected = np.isin(owners(quoted) * rows + quoted["row"], owners(near) * rows + near["row"])
    length = lengths[quoted["row"]]
    within = (quoted["start"] >= 0) & ((quoted["start"] < quoted["end"]) | (length == 0))
    return ~selected | ~within | (quoted["start"] > quoted["end"]) | (quoted["end"] > length)


def _overspent(near: Columns, count: int, budgets: Sequence[int]) -> Bool[np.ndarray, " packs"]:
    """Packs with more neighbours at a hop than its budget, or with weights that do not fit."""
    owner, hop = owners(near), near["hop"].astype(np.int64)
    odd = _unusable(near, count)
    beyond = (hop < 0) | (hop >= len(budgets))
    odd[owner[beyond]] = True
    for number, budget in enumerate(budgets):
        at = hop == number
        odd |= np.bincount(owner[at], minlength=count) > budget
        odd |= _missing(owner[at], near["weight"][at], count)
    return odd


def _uneven(quoted: Columns, count: int, budget: int) -> Bool[np.ndarray, " packs"]:
    owner = owners(quoted)
    spent = np.bincount(owner, minlength=count) > budget
    return spent | _missing(owner, quoted["weight"], count) | _unusable(quoted, count)


def _unusable(entries: Columns, count: int) -> Bool[np.ndarray, " packs"]:
    weight = entries["weight"]
    found = np.zeros(count, bool)
    found[owners(entries)[~np.isfinite(weight) | (weight < 0)]] = True
    return found


def _missing(
    owner: Int[np.ndarray, " entries"], weight: Float[np.ndarray, " entries"], count: int
) -> Bool[np.ndarray, " packs"]:
    """Packs that have entries, the weights of which do not sum to 1."""
    total = np.bincount(owner, weight, count)
    return (np.bincount(owner, minlength=count) > 0) & ~(np.abs(total - 1) <= TOLERANCE - _ROUNDING)
