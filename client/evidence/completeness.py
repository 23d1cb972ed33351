"""Whether a site's evidence of one round is whole and fits its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int
from scipy.sparse import csr_array

from fedtag.client.evidence.pack_table import PackTable, owners
from fedtag.client.evidence.packs import EvidencePack, Kind, NodeId

SCORED: Kind = "scored"
_AT_ONCE = 1 << 17  # pairs of nodes whose neighbours are compared together


def completeness_violations(
    packs: PackTable,
    round_number: int,
    node_ids: Sequence[NodeId],
    edges: Int[np.ndarray, "edges 2"],
    model: str | None = None,
) -> list[str]:
    """Every rule that the packs of a round break together, one sentence each.

    Each node has one pack; all packs are of predictions, of the round and of one model; a neighbour at hop 1 is
    adjacent, one at hop 2 is at a distance of exactly two; a confidence is a probability.

    Args:
        packs: of one round, for all nodes.
        round_number: that the file's name states.
        node_ids: the institution's nodes.
        edges: pairs of positions in `node_ids`; their direction does not count.
        model: fingerprint of the released model, if these packs should be its evidence.
    """
    found: list[str] = []
    counts = Counter(packs.nodes[: len(packs)])
    missing = [node for node in node_ids if node not in counts]
    if missing:
        found.append(f"{len(missing)} of {len(node_ids)} nodes have no evidence, for example {missing[0]!r}")
    found += [f"node {node!r} has {count} packs" for node, count in counts.items() if count > 1]
    models = packs.models | ({model} if model else set())
    if len(models) > 1:
        found.append(f"the packs and the released model name {len(models)} different models")
    confidence = packs.numbers("confidence")
    rounds = packs.table["round"][: len(packs)].to_numpy()
    astray = _astray(packs, node_ids, edges)
    kinds, names = packs.codes("kind")
    other = np.array([name != SCORED for name in names], bool)[kinds]
    odd = other | (rounds != round_number) | ~((confidence >= 0) & (confidence <= 1))
    odd[owners(packs.neighbours)[astray]] = True
    for row in np.flatnonzero(odd).tolist():
        begin, end = packs.neighbours["bounds"][row : row + 2].tolist()
        found += _violations(packs[row], round_number, astray[begin:end])
    return found


def _violations(pack: EvidencePack, round_number: int, astray: Bool[np.ndarray, " neighbours"]) -> list[str]:
    subject = f"node {pack.node!r}, round {pack.round}"
    found = []
    if pack.round != round_number:
        found.append(f"{subject}: the pack lies in the file of round {round_number}")
    if pack.kind != SCORED:
        found.append(f"{subject}: the pack is of kind {pack.kind!r} among those of predictions, {SCORED!r}")
    if not 0 <= pack.confidence <= 1:
        found.append(f"{subject}: a confidence of {pack.confidence:g} is no probability")
    said = {1: "adjacent", 2: "at distance two"}
    return found + [
        f"{subject}: {one.node!r} is not {said[one.hop]}, but stands at hop {one.hop}"
        for one, wrong in zip(pack.neighbours, astray.tolist(), strict=True)
        if wrong
    ]


def _astray(
    packs: PackTable, node_ids: Sequence[NodeId], edges: Int[np.ndarray, "edges 2"]
) -> Bool[np.ndarray, " neighbours"]:
    """Which neighbours of all packs are not as far away as their hop says."""
    place = {node: number for number, node in enumerate(node_ids)}
    # Who is not in the folder is nobody's neighbour: the last place.
    places = np.fromiter((place.get(node, len(node_ids)) for node in packs.nodes), np.int64, len(packs.nodes))
    near = packs.neighbours
    own, other, hop = places[owners(near)], places[near["row"]], near["hop"]
    size = len(node_ids) + 1
    ends = np.concatenate([edges, edges[:, ::-1]])
    links = csr_array((np.ones(len(ends), np.int32), (ends[:, 0], ends[:, 1])), shape=(size, size))
    found = np.zeros(len(hop), bool)
    for begin in range(0, len(hop), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        first, second = hop[part] == 1, hop[part] == 2
        adjacent = links[own[part], other[part]] > 0
        shared = np.zeros(len(first), bool)
        pairs = own[part][second], other[part][second]
        shared[second] = links[pairs[0]].multiply(links[pairs[1]]).sum(axis=1) > 0
        found[part] = (first & ~adjacent) | (second & (adjacent | ~shared))
    return found
