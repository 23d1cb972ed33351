from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedtag.client.data.text_graph import CrossEdges, TextGraph
from fedtag.client.parts.neighbour_exchange.bundles import Asked, Bundle, Crossings, asked, check_requests
from fedtag.common.errors import ConfigError, WireError

PEERS = ("b", "c", "d")
LEAST = 3


def graph(name: str, nodes: int, cross: list[tuple[int, Any, str]], directed: bool = False) -> TextGraph:
    source, foreign, peer = zip(*cross, strict=True) if cross else ((), (), ())
    return TextGraph(
        name=name,
        node_ids=tuple(range(nodes)),
        texts=("",) * nodes,
        labels=np.full(nodes, -1),
        split=np.zeros(nodes, np.int8),
        edges=np.zeros((0, 2), np.int64),
        edge_weights=np.zeros(0, np.float32),
        classes=("x", "y"),
        directed=directed,
        cross_edges=CrossEdges(
            np.array(source, np.int64), tuple(foreign), tuple(peer), np.ones(len(cross), np.float32)
        ),
    )


# Node 0 has three neighbours at two peers, 1 two at one, 2 four at three, 3 three at the same two as 0, 4 none.
CROSS: list[tuple[int, Any, str]] = [
    *[(0, n, "b") for n in (10, 11)],
    (0, 20, "c"),
    *[(1, n, "b") for n in (10, 12)],
    *[(2, 13, "b"), (2, 21, "c"), (2, 30, "d"), (2, 31, "d")],
    *[(3, 11, "b"), (3, 22, "c"), (3, 23, "c")],
]


def requests(peers: tuple[str, ...] = PEERS, least: int = LEAST) -> Asked:
    site = graph("a", 5, CROSS)
    return asked(Crossings.of(site), site.node_ids, "a", peers, least)


def test_nodes_with_the_same_owners_are_asked_for_together_and_small_sums_not_at_all() -> None:
    found = requests()
    assert (found.boundary, found.small) == (4, 1)
    table = {bundle.owners: (bundle.nodes, bundle.counts) for bundle in found.bundles}
    assert table == {
        ("b", "c"): (("0", "3"), ((2, 1), (1, 2))),
        ("b", "c", "d"): (("2",), ((1, 1, 2),)),
    }
    by_owners = {bundle.owners: rows.tolist() for bundle, rows in zip(found.bundles, found.rows, strict=True)}
    assert by_owners == {("b", "c"): [0, 3], ("b", "c", "d"): [2]}


def test_neighbours_at_those_who_are_away_do_not_count() -> None:
    found = requests(("c", "d"))
    assert [(bundle.owners, bundle.nodes) for bundle in found.bundles] == [(("c", "d"), ("2",))]
    assert found.small == 3


def test_an_edge_that_is_told_twice_counts_once() -> None:
    crossings = Crossings.of(graph("a", 5, [*CROSS, *CROSS]))
    assert len(crossings.source) == len(CROSS)
    assert {node: group.tolist() for node, group in crossings.of_peer("d").items()} == {"30": [7], "31": [8]}
    assert Crossings.of(graph("a", 5, [])).of_peer("b") == {}
    assert not asked(Crossings.of(graph("a", 5, [])), range(5), "a", PEERS, LEAST).bundles


def test_a_directed_graph_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"neighbour-exchange.mode = off"):
        Crossings.of(graph("a", 5, CROSS, directed=True))


# What "b" knows: its nodes 10 to 13 link to the nodes of "a".
HELD = Crossings.of(
    graph("b", 4, [(0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (2, 1, "a"), (3, 2, "a"), (1, 3, "a")])
)


def check(*bundles: Bundle, least: int = LEAST) -> None:
    check_requests(bundles, HELD.of_peer("a"), "b", ("a", "c", "d"), least)


def test_honest_requests_pass_after_the_way_through_json() -> None:
    found = tuple(Bundle.from_json("a", bundle.as_json()) for bundle in requests().bundles)
    assert {one.nodes for one in found} == {("0", "3"), ("2",)}
    check(*found)


def test_requests_that_would_single_out_neighbours_are_refused() -> None:
    honest = next(bundle for bundle in requests().bundles if bundle.owners == ("b", "c"))
    wide = next(bundle for bundle in requests().bundles if len(bundle.owners) == 3)
    with pytest.raises(WireError, match="two sums of one node"):
        check(honest, replace(wide, nodes=("0",), counts=((2, 1, 1),)))
    with pytest.raises(WireError, match="fewer than 3"):
        check(replace(honest, owners=("b",), nodes=("0",), counts=((2,),)))
    with pytest.raises(WireError, match="counts other neighbours"):
        check(replace(honest, counts=((3, 1), (1, 2))))
    with pytest.raises(WireError, match="counts other neighbours"):
        check(replace(honest, nodes=("0", "99")))
    for owners in (("b", "x"), ("a", "b"), ("c", "d")):
        with pytest.raises(WireError, match="owners"):
            check(replace(honest, owners=owners))


def test_whatever_a_recipient_tells_differently_changes_the_slot() -> None:
    one = requests().bundles[0]
    others = [
        replace(one, nonce="00" * 16),
        replace(one, recipient="z"),
        replace(one, owners=(*one.owners, "z")),
        replace(one, nodes=one.nodes[:1], counts=one.counts[:1]),
        replace(one, counts=tuple(tuple(n + 1 for n in row) for row in one.counts)),
    ]
    assert len({one.slot, *(other.slot for other in others)}) == 1 + len(others)
    assert requests().bundles[0].slot != requests().bundles[0].slot, "a nonce hides what could be guessed"


@pytest.mark.parametrize(
    "value",
    [
        "text",
        ["n", ["b"], ["0"]],
        [1, ["b"], ["0"], [[3]]],
        ["n", [], ["0"], [[]]],
        ["n", ["c", "b"], ["0"], [[2, 1]]],
        ["n", ["b", "b"], ["0"], [[2, 1]]],
        ["n", ["b"], [], []],
        ["n", ["b"], [0], [[3]]],
        ["n", ["b"], ["0"], [[3, 3]]],
        ["n", ["b"], ["0"], [[0]]],
        ["n", ["b"], ["0"], [[True]]],
        ["n", ["b"], ["0"], []],
    ],
)
def test_what_is_no_request_is_refused(value: Any) -> None:
    with pytest.raises(WireError, match="request"):
        Bundle.from_json("a", value)
