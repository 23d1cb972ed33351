from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.common.numerics.ragged import (
    Ragged,
    merge,
    segment_max,
    segment_rank,
    segment_softmax,
    segment_sum,
)

sets_of_ids = st.lists(st.sets(st.integers(0, 9), max_size=6), min_size=1, max_size=6)


def ragged(sets: list[set[int]]) -> Ragged:
    pairs = [(row, item) for row, items in enumerate(sets) for item in items][::-1]
    row, index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    return Ragged.from_pairs(row, index, len(sets))


def lists(value: Ragged) -> list[list[int]]:
    bounds = value.ptr.tolist()
    return [value.index[a:b].tolist() for a, b in pairwise(bounds)]


@settings(deadline=None)
@given(sets_of_ids, st.data())
def test_rows_behave_like_python_sets(sets: list[set[int]], data: st.DataObject) -> None:
    value = ragged(sets)
    assert lists(value) == [sorted(items) for items in sets]
    assert value.row.tolist() == [row for row, items in enumerate(sets) for _ in items]

    rows = data.draw(st.lists(st.integers(0, len(sets) - 1), max_size=5))
    chosen = torch.tensor(rows, dtype=torch.long)
    assert lists(value.select(chosen)) == [sorted(sets[row]) for row in rows]
    assert value.index[value.entries_of(chosen)].tolist() == [i for row in rows for i in sorted(sets[row])]

    even = value.index % 2 == 0
    assert lists(value.filter(even)) == [[i for i in sorted(items) if i % 2 == 0] for items in sets]

    ids, local = value.compact()
    assert ids.tolist() == sorted(set().union(*sets))
    assert ids[local.index].tolist() == value.index.tolist()

    shifted = [{item + 1 for item in items} for items in sets]
    union = [sorted(a | b) for a, b in zip(sets, shifted, strict=True)]
    assert lists(merge(value, ragged(shifted))) == union


def test_singletons_are_one_id_per_row() -> None:
    assert lists(Ragged.singletons(torch.tensor([4, 2]))) == [[4], [2]]


@settings(deadline=None)
@given(sets_of_ids, st.integers(0, 1000))
def test_reductions_agree_with_a_loop(sets: list[set[int]], seed: int) -> None:
    value = ragged(sets)
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-3, 4, value.index.shape, generator=generator).double()
    parts = torch.split(scores, value.width.tolist())
    row, rows = value.row, value.num_rows
    assert segment_sum(scores, value.ptr).tolist() == [float(part.sum()) for part in parts]
    largest = [float(part.max()) if len(part) else -torch.inf for part in parts]
    assert segment_max(scores, row, rows).tolist() == largest
    soft = torch.cat([part.softmax(0) for part in parts])
    torch.testing.assert_close(segment_softmax(scores, row, value.ptr), soft)
    ranks = [[i for _, i in sorted((-s.item(), i) for i, s in enumerate(part))] for part in parts]
    expected = [order.index(i) for order in ranks for i in range(len(order))]
    assert segment_rank(scores, value.ptr).tolist() == expected
