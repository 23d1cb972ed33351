"""Nodes whose class their neighbourhood tells and their text alone does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedtag.audits.evidence import Audited
from fedtag.client.data.text_graph import TEST
from fedtag.runs.prediction import predict
from fedtag.runs.progress import Progress

NEIGHBOURS = 3


@dataclass(frozen=True)
class TurnedNode:
    """A test node that is told right from its neighbourhood and wrong from its text.

    Args:
        node: its identifier.
        text: what it says.
        by_text: the class that its text alone gives, with the probability of that.
        label: its class.
        neighbours: those that counted most for it, with their classes, if they have one.
    """

    node: str
    text: str
    by_text: tuple[str, float]
    label: str
    neighbours: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Turned:
    """What the neighbourhood does to the test nodes of a site.

    Args:
        site: its name.
        tested: its test nodes.
        right: those that are told right with it and wrong without, surest mistakes of the text first.
        wrong: how many are told wrong with it and right without.
    """

    site: str
    tested: int
    right: Sequence[TurnedNode]
    wrong: int


def turned_nodes(site: Audited, text_alone: Path, progress: Progress) -> Turned:
    """Compare what the evidence of a site predicts with what a model predicts that knows texts and no links.

    Args:
        site: the evidence, with predictions for every node.
        text_alone: run directory of that model.
        progress: of its predictions.
    """
    graph = site.graph
    predicted = predict(text_alone, site.site.folder, evidence=False, progress=progress)
    names, shares = predicted.release.card.classes, predicted.prediction.logits.softmax(1)
    by_text = [
        (names[best], float(share[best])) for best, share in zip(predicted.classes, shares, strict=True)
    ]
    class_of = {
        str(node): graph.classes[label] if label >= 0 else None
        for node, label in zip(graph.node_ids, graph.labels, strict=True)
    }
    text_of = dict(zip(map(str, graph.node_ids), graph.texts, strict=True))
    told = dict(zip(class_of, by_text, strict=True))
    tested = {str(node) for node, part in zip(graph.node_ids, graph.split, strict=True) if part == TEST}
    right, wrong = [], 0
    for pack in site.packs:
        node = str(pack.node)
        label = class_of[node]
        with_links, without = pack.prediction == label, told[node][0] == label
        if node not in tested or label is None or with_links == without:
            continue
        if without:
            wrong += 1
            continue
        around = sorted((one for one in pack.neighbours if one.hop), key=lambda one: (one.hop, -one.weight))
        near = tuple((str(one.node), class_of.get(str(one.node))) for one in around[:NEIGHBOURS])
        right.append(TurnedNode(node, text_of[node], told[node], label, near))
    # Which are named is decided by the text's mistake alone, whatever the neighbourhood says of them.
    right.sort(key=lambda one: (-one.by_text[1], one.node))
    return Turned(site.name, len(tested), right, wrong)
