from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.data.fractions import parse_split
from fedtag.client.data.splitting import resplit
from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL, TextGraph
from fedtag.common.errors import ConfigError


def graph_of(labels):
    n = len(labels)
    nothing = np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
    classes = ("a", "b", "c", "d")
    return TextGraph(
        "g", tuple(range(n)), ("",) * n, np.array(labels, np.int64), np.ones(n, np.int8), *nothing, classes
    )


def half_up(value: Fraction) -> int:
    return (value + Fraction(1, 2)).__floor__()


@given(
    st.lists(st.integers(0, 3), max_size=120),
    st.sampled_from(
        [(60, 20, 20), (10, 10, 80), (1, 0, 0), (50, 25, 0), (33, 33, 34), (7, 13, 29), (100, 0, 0)]
    ),
    st.integers(0, 5),
)
def test_counts_are_exact_in_every_class(labels, percent, seed):
    split = resplit(graph_of(labels), [value / 100 for value in percent], seed).split
    for label in range(4):
        members = np.array(labels) == label
        size = int(members.sum())
        bounds = [half_up(Fraction(sum(percent[:count]), 100) * size) for count in (1, 2, 3)]
        counts = np.bincount(split[members], minlength=4)
        assert counts[TRAIN] == bounds[0]
        assert counts[VAL] == bounds[1] - bounds[0]
        assert counts[TEST] == bounds[2] - bounds[1]
        assert counts[NONE] == size - bounds[2]


def test_unlabelled_nodes_are_in_no_split():
    split = resplit(graph_of([-1, 0, 0, -1, 1]), (1, 0, 0), 0).split
    assert split.tolist() == [NONE, TRAIN, TRAIN, NONE, TRAIN]


def test_seeded(make_graph):
    graph = make_graph()
    assert resplit(graph, (0.6, 0.2, 0.2), 3) == resplit(graph, (0.6, 0.2, 0.2), 3)
    assert resplit(graph, (0.6, 0.2, 0.2), 3) != resplit(graph, (0.6, 0.2, 0.2), 4)
    assert replace(resplit(graph, (0.6, 0.2, 0.2), 3), split=graph.split) == graph


def test_parse_split():
    assert parse_split("given") is None
    assert parse_split("0.6, 0.2,0.2") == (0.6, 0.2, 0.2)


@pytest.mark.parametrize(
    "text", ["", "0.6,0.2", "a,b,c", "0.6,0.2,0.3", "-1,1,1", "0,0.5,0.5", "nan,0,0", "1,1e400,0"]
)
def test_wrong_splits(text):
    with pytest.raises(ConfigError, match="split is"):
        parse_split(text)
