"""The nodes that somebody asks for, found a piece at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

import numpy as np
from jaxtyping import Bool, Int

from fedtag.client.data.text_graph import SPLIT_NAMES
from fedtag.client.evidence.page.content import Content
from fedtag.client.evidence.page.views import FLAGS

_AT_ONCE = 500  # texts that are searched between two looks at the clock


@dataclass(frozen=True)
class Asked:
    """Which nodes are asked for, and in which order; what is empty does not count.

    Args:
        words: in lower case; a node has all of them in its text, or in its name and prediction.
        only: one of `FLAGS`, a split, sample, wrong, right or unknown.
        label, prediction: places among the classes of the page.
        order: sure or unsure first.
    """

    words: tuple[str, ...] = ()
    only: str = ""
    label: str = ""
    prediction: str = ""
    order: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Asked:
        """What the fields of an address ask for."""
        fields = {name: query.get(name, "") for name in ("only", "label", "prediction", "order")}
        return cls(tuple(query.get("words", "").lower().split()), **fields)


class Listing:
    """What is asked for, among all nodes of a site.

    Args:
        content: of the site.
        asked: what for.

    Raises:
        ValueError: `only` is no such word, or a class is none.
    """

    def __init__(self, content: Content, asked: Asked) -> None:
        self._content, self._words = content, asked.words
        order, chosen = _ordered(content, asked.order), _chosen(content, asked)
        self._rows = order[chosen[order]]
        self._found = self._rows if not asked.words else np.zeros_like(self._rows)
        self._done = 0 if asked.words else len(self._rows)
        self._count = self._done
        self._writing = Lock()

    @property
    def found(self) -> Int[np.ndarray, " found"]:
        """Rows that were found until now."""
        return self._found[: self._count]

    @property
    def searched(self) -> float:
        """The share that was looked at, 1 at the end."""
        return 1.0 if self._done == len(self._rows) else self._done / len(self._rows)

    def search(self, seconds: float) -> None:
        """Go on for so long, by a piece at least, or to the end."""
        until = time.monotonic() + seconds
        with self._writing:
            while self._done < len(self._rows):
                part = self._rows[self._done : self._done + _AT_ONCE]
                hits = [row for row in part.tolist() if self._has_words(row)]
                self._found[self._count : self._count + len(hits)] = hits
                self._count += len(hits)
                self._done += len(part)
                if time.monotonic() >= until:
                    break

    def _has_words(self, row: int) -> bool:
        content, views = self._content, self._content.views
        text = (views.sources.text(views.nodes[row]) or "").lower()
        if all(word in text for word in self._words):
            return True
        called = f"{content.nodes[row]} {content.classes[content.prediction[row]]}".lower()
        return all(word in called for word in self._words)


def _ordered(content: Content, order: str) -> Int[np.ndarray, " packs"]:
    way = {"sure": -1, "unsure": 1}.get(order)
    if way is None:
        return content.order
    return content.order[np.argsort(way * content.confidence[content.order], kind="stable")]


def _chosen(content: Content, asked: Asked) -> Bool[np.ndarray, " packs"]:
    found = _only(content, asked.only)
    for codes, place in ((content.label, asked.label), (content.prediction, asked.prediction)):
        if place:
            if place not in map(str, range(len(content.classes))):
                raise ValueError(
                    f"{place[:100]!r} is no class: give its place, from 0 to {len(content.classes) - 1}"
                )
            found = found & (codes == int(place))
    return found


def _only(content: Content, only: str) -> Bool[np.ndarray, " packs"]:
    count = len(content.nodes)
    if not only:
        return np.ones(count, bool)
    if only in FLAGS:
        return content.has(only)
    if only in SPLIT_NAMES:
        return np.fromiter((split == only for split in content.views.splits), bool, count)
    if only == "sample":
        return np.isin(np.arange(count), content.drawn)
    known = content.label >= 0
    kinds = {"wrong": content.wrong, "right": known & ~content.wrong, "unknown": ~known}
    if only not in kinds:
        raise ValueError(
            f"{only[:100]!r} is no kind of nodes: {', '.join([*kinds, *FLAGS, *SPLIT_NAMES, 'sample'])}"
        )
    return kinds[only]
