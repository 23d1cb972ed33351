"""Steps are torch's to the bit, and load no compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from fedtag.common.numerics.optimisers import SGD, Adam

STEP = """
import sys
import torch
from fedtag.common.numerics.optimisers import SGD, Adam

for kind in (Adam, SGD):
    weight = torch.ones(3, requires_grad=True)
    stepper = kind([weight], lr=.1, fused=True)
    stepper.zero_grad()
    weight.sum().backward()
    stepper.step()
    stepper.load_state_dict(stepper.state_dict())
    assert (weight != 1).all()
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda w: Adam(w, lr=0.1, weight_decay=0.01, fused=True), torch.optim.Adam),
        (lambda w: SGD(w, lr=0.1, momentum=0.9, weight_decay=0.01, fused=True), torch.optim.SGD),
    ],
)
def test_steps_are_those_of_torch(
    ours: Callable[[list[torch.Tensor]], torch.optim.Optimizer], theirs: type[torch.optim.Optimizer]
) -> None:
    def walked(make: Callable[[list[torch.Tensor]], torch.optim.Optimizer]) -> torch.Tensor:
        weight = torch.linspace(-1, 1, 7).requires_grad_()
        stepper = make([weight])
        for _ in range(5):
            stepper.zero_grad(set_to_none=True)
            (weight**4).sum().backward()
            stepper.step()
        return weight.detach()

    options = ours([torch.zeros(1, requires_grad=True)]).defaults
    assert torch.equal(walked(ours), walked(lambda w: theirs(w, **options)))


def test_a_step_loads_no_compiler() -> None:
    subprocess.run([sys.executable, "-c", STEP], check=True)
