from __future__ import annotations

from typing import Any

import pytest
import torch

from fedtag.client.train.repeatable import repeatable, sums_in_order
from fedtag.common.config import RunConfig


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"method": "fedavg"}, True),
        ({"method": "dance"}, True),
        ({"method": "fedavg", "model.backbone": "gat"}, False),
        ({"method": "fedavg", "condenser.name": "gcond"}, False),
        ({"method": "fedavg", "parts": "neighbour-generator"}, False),
        ({"method": "fedgc"}, False),
        ({"method": "da_dfgas"}, False),
    ],
)
def test_who_needs_deterministic_kernels(settings: dict[str, Any], expected: bool) -> None:
    assert sums_in_order(RunConfig.from_flat(settings)) is expected


def test_a_processor_is_left_as_it_is() -> None:
    config = RunConfig.from_flat({"method": "fedavg", "model.backbone": "gat"})
    with repeatable(torch.device("cpu"), config):
        assert not torch.are_deterministic_algorithms_enabled()


def test_kernels_are_asked_for_within_the_block_alone() -> None:
    """The switch is one of the process, and needs no GPU."""
    config = RunConfig.from_flat({"method": "fedavg", "model.backbone": "gat"})

    def broken() -> None:
        with repeatable(torch.device("cuda"), config):
            assert torch.are_deterministic_algorithms_enabled()
            assert torch.is_deterministic_algorithms_warn_only_enabled()
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        broken()
    assert not torch.are_deterministic_algorithms_enabled()
