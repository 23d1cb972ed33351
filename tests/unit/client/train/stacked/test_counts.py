"""Counts of many groups are those of each."""

from __future__ import annotations

import torch

from fedtag.client.train.stacked.counts import grouped_counts
from fedtag.common.numerics.scores import tally

NODES, CLASSES, GROUPS = 500, 4, 5


def test_each_group_has_its_own_tally() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(NODES, CLASSES, generator=generator)
    label = torch.randint(0, CLASSES, (NODES,), generator=generator)
    # Nobody is in the last group.
    group = torch.randint(0, GROUPS - 1, (NODES,), generator=generator)
    counts = grouped_counts(logits, label, group, GROUPS, ranked=True)
    for number in range(GROUPS):
        alone = vars(tally(logits, label, group == number, ranked=True))
        for field, value in alone.items():
            assert value.dtype is counts[field].dtype
            torch.testing.assert_close(counts[field][number], value, rtol=1e-6, atol=0, msg=field)


def test_the_order_of_nodes_changes_no_bit() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(NODES, CLASSES, generator=generator)
    label, group = torch.zeros(NODES, dtype=torch.long), torch.zeros(NODES, dtype=torch.long)
    order = torch.randperm(NODES, generator=generator)
    one = grouped_counts(logits, label, group, 1, ranked=False)
    other = grouped_counts(logits[order], label, group, 1, ranked=False)
    assert one.keys() == {"confusion", "bin_nodes", "bin_confidence", "bin_correct"}
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_what_is_no_number_is_counted_without_an_error() -> None:
    logits = torch.full((3, CLASSES), torch.nan)
    zeros = torch.zeros(3, dtype=torch.long)
    counts = grouped_counts(logits, zeros, zeros, 1, ranked=True)
    assert int(counts["confusion"].sum()) == 3
    assert bool(counts["bin_confidence"].isfinite().all())
