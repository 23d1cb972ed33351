"""Whether a site's evidence of one round is whole and fits its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fedtag.client.evidence.packs import EvidencePack, NodeId


def completeness_violations(
    packs: Sequence[EvidencePack],
    round_number: int,
    node_ids: Sequence[NodeId],
    edges: Iterable[tuple[int, int]],
    model: str | None = None,
) -> list[str]:
    """Every rule that the packs of a round break together, one sentence each.

    Each node has one pack; all packs are of the round and of one model; a neighbour at hop 1 is adjacent, one
    at hop 2 is at a distance of exactly two; a confidence is a probability.

    Args:
        packs: of one round, for all nodes.
        round_number: that the file's name states.
        node_ids: the institution's nodes.
        edges: pairs of positions in `node_ids`; their direction does not count.
        model: fingerprint of the released model, if these packs should be its evidence.
    """
    found: list[str] = []
    counts = Counter(pack.node for pack in packs)
    missing = [node for node in node_ids if node not in counts]
    if missing:
        found.append(f"{len(missing)} of {len(node_ids)} nodes have no evidence, for example {missing[0]!r}")
    found += [f"node {node!r} has {count} packs" for node, count in counts.items() if count > 1]
    models = sorted({pack.model for pack in packs} | ({model} if model else set()))
    if len(models) > 1:
        found.append(f"the packs and the released model name {len(models)} different models")
    around = _neighbours(node_ids, edges)
    for pack in packs:
        subject = f"node {pack.node!r}, round {pack.round}"
        if pack.round != round_number:
            found.append(f"{subject}: the pack lies in the file of round {round_number}")
        if not 0 <= pack.confidence <= 1:
            found.append(f"{subject}: a confidence of {pack.confidence:g} is no probability")
        found += _distance_violations(subject, pack, around)
    return found


def _neighbours(node_ids: Sequence[NodeId], edges: Iterable[tuple[int, int]]) -> dict[NodeId, set[NodeId]]:
    around: dict[NodeId, set[NodeId]] = {node: set() for node in node_ids}
    for source, target in edges:
        around[node_ids[source]].add(node_ids[target])
        around[node_ids[target]].add(node_ids[source])
    return around


def _distance_violations(subject: str, pack: EvidencePack, around: dict[NodeId, set[NodeId]]) -> list[str]:
    near = around.get(pack.node, set())
    found = []
    for neighbour in pack.neighbours:
        if neighbour.hop == 1 and neighbour.node not in near:
            found.append(f"{subject}: {neighbour.node!r} is not adjacent, but stands at hop 1")
        if neighbour.hop == 2 and (
            neighbour.node in near or near.isdisjoint(around.get(neighbour.node, set()))
        ):
            found.append(f"{subject}: {neighbour.node!r} is not at distance two, but stands at hop 2")
    return found
