"""What says that it sums in one order on every device calls no operator whose order is left to the device."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from fedtag.common.models.spec import BACKBONES
from tests.unit.common.models.small import CLASSES, adjacency, backbone, features, generator
from tests.unordered import Called


@pytest.mark.parametrize("family", BACKBONES.usable())
def test_ordered_backbones_add_in_one_order(family: str) -> None:
    """And the others do not, without which their specifications would ask for slow kernels in vain."""
    model, matrix, x = backbone(family), adjacency(), features()
    with Called() as called:
        logits = model(x, matrix, generator())
        functional.cross_entropy(logits, torch.arange(len(x)) % CLASSES).backward()
    assert (called.most == {}) is BACKBONES.get(family).ordered
