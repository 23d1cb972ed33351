from __future__ import annotations

import numpy as np
import pytest

from fedtag.client.evidence.packs import NodeId
from fedtag.client.evidence.page.content import Content
from fedtag.client.evidence.page.listing import Asked, Listing
from fedtag.client.evidence.page.views import Views
from tests.audited import HOSTILE, chunk, pack, site_of, telling


@pytest.fixture(scope="module")
def content() -> Content:
    return Content(Views(telling()), 4)


def found(content: Content, **asked: str) -> list[str]:
    listing = Listing(content, Asked.of(asked))
    listing.search(60)
    assert listing.searched == 1
    return [content.nodes[row] for row in listing.found.tolist()]


def test_all_nodes_are_listed_with_violations_first(content: Content) -> None:
    assert found(content) == ["n3", "n0", "n2", HOSTILE, "n1", "n4", "n5", "n6"]


def test_filters_and_orders(content: Content) -> None:
    assert found(content, only="wrong") == ["n0", HOSTILE]
    assert found(content, only="right") == ["n2", "n1", "n4", "n5", "n6"]
    assert found(content, only="unknown") == ["n3"]
    assert found(content, only="faulty") == ["n3"]
    assert found(content, only="train") == ["n4", "n5", "n6"]
    assert found(content, only="sample") == [node for node in found(content) if node in sampled(content)]
    rules, theory = (str(content.classes.index(name)) for name in ("Rules", "Theory"))
    assert found(content, label=rules) == ["n0"]
    assert found(content, label=theory, prediction=theory, order="unsure")[0] == "n2"
    assert found(content, order="sure")[-1] == "n2"
    with pytest.raises(ValueError, match="'others' is no kind of nodes: wrong, right"):
        found(content, only="others")


@pytest.mark.parametrize("name", ["Rules", "nope", "-1", "4", "1" * 5000, "٣"])
def test_what_is_no_class_is_refused(content: Content, name: str) -> None:
    for field in ("label", "prediction"):
        with pytest.raises(ValueError, match="is no class: give its place, from 0 to 3"):
            found(content, **{field: name})


def test_of_two_classes_that_are_shown_alike_each_is_listed() -> None:
    texts: dict[NodeId, str] = dict.fromkeys("ab", "text")
    packs = [
        pack(node, [chunk(texts, node, 0, 4, 1.0)], prediction=f"x{hidden}")
        for node, hidden in zip(texts, "\u200b\u200c", strict=True)
    ]
    content = Content(Views(site_of(packs, texts)))
    assert content.shown_classes == ["x\N{REPLACEMENT CHARACTER}"] * 2
    assert [found(content, prediction=str(code)) for code in range(2)] == [["a"], ["b"]]


def sampled(content: Content) -> set[str]:
    return {content.nodes[row] for row in content.drawn}


def test_words_are_those_of_the_text_or_of_name_and_class(content: Content) -> None:
    assert found(content, words="FACES count") == ["n2"]
    assert found(content, words="n6 theory") == ["n6"]
    assert found(content, words="faces nowhere") == []
    assert found(content, words="words", only="train") == ["n4", "n5", "n6"]
    assert found(content, words="onerror") == [HOSTILE]


def test_a_search_goes_on_where_it_stopped() -> None:
    count = 2200
    texts: dict[NodeId, str] = {node: "even" if node % 2 == 0 else "odd" for node in range(count)}
    content = Content(Views(site_of([pack(node, [chunk(texts, node, 0, 3, 1.0)]) for node in texts], texts)))
    listing, shares = Listing(content, Asked(("even",))), [0.0]
    while listing.searched < 1:
        # Time for one piece.
        listing.search(1e-9)
        shares.append(listing.searched)
        assert np.array_equal(listing.found, np.arange(0, shares[-1] * count, 2))
    assert len(shares) > 4
    assert shares == sorted(set(shares))
