from __future__ import annotations

import pytest
import torch

from fedtag.common.config import RunConfig
from fedtag.common.errors import DivergenceError
from fedtag.common.methods.fedgc.student import student
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.models.spec import BACKBONES
from fedtag.common.settings.run_settings import RunSettings
from fedtag.common.settings.sections import ModelConfig
from fedtag.common.synthetic.condensed import Condensed

SETTINGS = RunSettings(model=ModelConfig(hidden=8))


def graph(scale: float = 1.0) -> Condensed:
    y = torch.arange(12) % 3
    x = torch.eye(3)[y] + 0.1 * torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    return Condensed.without_links(scale * x, y, copies=False)


@pytest.mark.parametrize("family", BACKBONES.names)
def test_every_family_learns_a_condensed_graph(family: str) -> None:
    settings = RunConfig.from_flat({"method": "fedavg", "model.hidden": 8, "model.backbone": family})
    model = student(graph(), settings, 3, 100, 0.05, 5e-4, 0)
    with torch.no_grad():
        assert torch.equal(model(graph().x, graph().adjacency).argmax(1), graph().y)


def test_the_seed_alone_decides() -> None:
    one, other, third = (
        fingerprint(parameters_of(student(graph(), SETTINGS, 3, 5, 0.01, 0.0, seed))) for seed in (0, 0, 1)
    )
    assert one == other
    assert one != third


def test_divergence_names_the_loss() -> None:
    with pytest.raises(
        DivergenceError, match=r"training on the condensed graph diverged .*: lower fedgc\.model-rate"
    ):
        student(graph(float("inf")), SETTINGS, 3, 2, 0.01, 0.0, 0)
