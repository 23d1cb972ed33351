from __future__ import annotations

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.common.numerics.quotas import class_quotas

classes = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=7)


@settings(deadline=None, max_examples=300)
@given(classes, st.integers(0, 60))
def test_properties(specified: list[tuple[int, bool]], budget: int) -> None:
    sizes = torch.tensor([size for size, _ in specified])
    required = torch.tensor([need and size > 0 for size, need in specified])
    quotas = class_quotas(sizes, budget, required)
    assert int(quotas.sum()) == min(max(budget, int(required.sum())), int(sizes.sum()))
    assert bool((quotas >= 0).all())
    assert bool((quotas <= sizes).all())
    assert bool((quotas[required] >= 1).all())


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(0, 12))
def test_without_requirements_no_split_is_closer_to_the_shares(sizes: list[int], budget: int) -> None:
    total = sum(sizes)
    places = min(budget, total)
    quotas = class_quotas(torch.tensor(sizes), budget, torch.zeros(len(sizes), dtype=torch.bool)).tolist()

    def distance(split: tuple[int, ...]) -> int:
        return sum((total * part - places * size) ** 2 for part, size in zip(split, sizes, strict=True))

    splits = [s for s in itertools.product(*(range(n + 1) for n in sizes)) if sum(s) == places]
    least = min(map(distance, splits))
    # Largest remainder is the split nearest to the exact shares; among equals, early classes get more.
    assert quotas == list(max(s for s in splits if distance(s) == least))


def test_a_required_class_takes_its_place_from_the_others() -> None:
    sizes, required = torch.tensor([1, 60, 39]), torch.tensor([True, True, False])
    assert class_quotas(sizes, 10, required).tolist() == [1, 5, 4]
    assert class_quotas(sizes, 1, required).tolist() == [1, 1, 0]
