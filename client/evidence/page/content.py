"""What an audit page holds: an overview, an index of nodes, a drawn sample, and what it shows of each node."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fedtag.client.evidence.packs import NodeId
from fedtag.client.evidence.page.views import FLAGS, Views
from fedtag.common.wording.visible import visible

SAMPLE = 50
"""Nodes that are drawn for an auditor."""
BINS = 10
FIRST = 5  # nodes that are named where some are worth reading


class Content:
    """What pages of a site share, in plain types that JSON can hold.

    Args:
        views: of all nodes.
        sample: how many nodes are drawn; all where there are fewer.
    """

    def __init__(self, views: Views, sample: int = SAMPLE) -> None:
        self.views = views
        self.prediction, self.classes = views.packs.codes("prediction")
        label, names = views.packs.codes("label")
        self.classes += [name for name in names if name not in self.classes]
        # The last one is of labels that are not known.
        self.label = np.array([*map(self.classes.index, names), -1])[label]
        self.confidence = views.packs.numbers("confidence")
        self.nodes = [visible(str(node)) for node in views.nodes]
        self.drawn = self._drawn(sample)
        # Violations first, then the others as they come.
        self.order = np.argsort(~self.has("faulty"), kind="stable")

    def has(self, flag: str) -> Bool[np.ndarray, " packs"]:
        """Which packs' nodes have it, see `FLAGS`."""
        return (self.views.flags & FLAGS[flag]) > 0

    @cached_property
    def key(self) -> str:
        """Of the evidence: verdicts on it are kept under this name, and not taken for those on another model's."""
        views = self.views
        said = repr((views.rounds, sorted(views.packs.models), views.nodes))
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def wrong(self) -> Bool[np.ndarray, " packs"]:
        """Where the label is known and another class was predicted."""
        return (self.label >= 0) & (self.label != self.prediction)

    def first(self, most: int) -> Int[np.ndarray, " rows"]:
        """The packs of a page that has no room for all: violations, the sample, and surely wrong ones first."""
        if most >= len(self.order):
            return self.order
        drawn = np.zeros(len(self.order), bool)
        drawn[self.drawn] = True
        rank = np.lexsort((-self.confidence, ~self.wrong, ~drawn, ~self.has("faulty")))
        return rank[:most]

    def index(self, rows: Sequence[int]) -> dict[str, Any]:
        """The nodes of some packs, by which they are found and listed: a column a property.

        A node is addressed by the row of its pack: two may be shown alike, and one may have two packs.
        """
        chosen = np.asarray(rows, np.int64)
        return {
            "rows": chosen.tolist(),
            "nodes": [self.nodes[row] for row in rows],
            "prediction": self.prediction[chosen].tolist(),
            "label": self.label[chosen].tolist(),
            "confidence": np.round(self.confidence[chosen], 4).tolist(),
            "split": [self.views.splits[row] for row in rows],
            "flags": self.views.flags[chosen].tolist(),
        }

    @cached_property
    def shown_classes(self) -> list[str]:
        """Names of the classes as a page shows them."""
        return [visible(name) for name in self.classes]

    def overview(self, held: int) -> dict[str, Any]:
        """What is said of all nodes together.

        Args:
            held: so many of them the page can show.
        """
        return {
            "title": self.views.site.title,
            "total": len(self.nodes),
            "held": held,
            "faulty": int(self.has("faulty").sum()),
            "rounds": self.views.rounds,
            "key": self.key,
            "classes": self.shown_classes,
            "flags": FLAGS,
            "sample": self.drawn,
            "byClass": self._by_class(),
            "bins": self._bins(),
            "reading": self._reading(),
        }

    def _drawn(self, sample: int) -> list[int]:
        """Rows of nodes drawn at random from all, by what is drawn from: nobody chooses them."""
        generator = np.random.default_rng(int(self.key, 16))
        count = len(self.nodes)
        chosen = generator.choice(count, min(sample, count), replace=False)
        return sorted(chosen.tolist())

    def _by_class(self) -> list[dict[str, Any]]:
        """Nodes and errors of each label, and what it was most often taken for; most errors first."""
        test = np.array([split == "test" for split in self.views.splits], bool)
        rows = []
        for code in range(len(self.classes)):
            of = self.label == code
            if not of.any():
                continue
            missed = of & self.wrong
            taken = np.bincount(self.prediction[missed], minlength=len(self.classes))
            rows.append(
                {
                    "class": code,
                    "nodes": int(of.sum()),
                    "wrong": int(missed.sum()),
                    "test": int((of & test).sum()),
                    "testWrong": int((missed & test).sum()),
                    "taken": int(taken.argmax()) if missed.any() else None,
                    "takenNodes": int(taken.max()),
                }
            )
        return sorted(rows, key=lambda row: -row["wrong"])

    def _bins(self) -> list[list[int]]:
        """Right and wrong predictions by confidence, from 0 to 1 in equal steps."""
        known = self.label >= 0
        place = np.clip((self.confidence * BINS).astype(np.int64), 0, BINS - 1)
        right, wrong = (
            np.bincount(place[which], minlength=BINS) for which in (known & ~self.wrong, self.wrong)
        )
        return np.stack([right, wrong], 1).tolist()

    def _reading(self) -> list[dict[str, Any]]:
        """What is worth reading: the filter that lists it, how many nodes, and the first ones."""
        sure, unsure = np.argsort(-self.confidence, kind="stable"), np.argsort(self.confidence, kind="stable")
        right = (self.label >= 0) & ~self.wrong
        kinds = (
            ("faulty", "", self.has("faulty"), sure),
            ("wrong", "sure", self.wrong, sure),
            ("right", "unsure", right, unsure),
            ("unmoved", "", self.has("unmoved"), sure),
            ("foreign", "", self.has("foreign"), sure),
            ("other-inputs", "", self.has("other-inputs"), sure),
        )
        return [
            {
                "only": only,
                "order": order,
                "nodes": int(which.sum()),
                "first": [[row, self.nodes[row]] for row in rows[which[rows]][:FIRST].tolist()],
            }
            for only, order, which, rows in kinds
            if which.any()
        ]


def block(content: Content, rows: Sequence[int]) -> dict[str, Any]:
    """All that a page shows of some packs: index, views and texts, nodes by their place among `names` and `packs`.

    `packs` are the rows of the packs of these nodes, None where one has none.
    """
    return {"index": content.index(rows), **_shown(content, rows)}


def part(content: Content, row: int) -> dict[str, Any]:
    """The same of one pack, without the index."""
    shown = _shown(content, [row])
    return {
        "names": shown["names"],
        "packs": shown["packs"],
        "view": shown["views"][0],
        "texts": shown["texts"],
    }


def _shown(content: Content, rows: Sequence[int]) -> dict[str, Any]:
    views = content.views
    mentioned = views.nodes_of(rows)
    place = {node: number for number, node in enumerate(mentioned)}
    return {
        "names": [visible(str(node)) for node in mentioned],
        "packs": [views.row_of.get(node) for node in mentioned],
        "views": [_placed(views.view(row), place) | {"own": place[views.nodes[row]]} for row in rows],
        "texts": [list(one) for one in views.texts(rows, mentioned)],
    }


def _placed(view: dict[str, Any], place: dict[NodeId, int]) -> dict[str, Any]:
    """A view whose nodes are places; those between that are nowhere shown are named."""

    def of(node: NodeId) -> int | str:
        return place.get(node, visible(str(node)))

    return view | {
        "kept": [
            [place[node], hop, weight, [of(one) for one in via]] for node, hop, weight, via in view["kept"]
        ],
        "passed": [[count, [place[node] for node in some]] for count, some in view["passed"]],
        "spans": [[place[node], *rest] for node, *rest in view["spans"]],
        "faults": [visible(fault) for fault in view["faults"]],
    }
