from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from fedtag.client.train.examples import Examples
from fedtag.client.train.optimisation import optimiser, walk
from fedtag.client.train.replay import Replay
from fedtag.common.config import RunConfig
from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import load_parameters, parameters_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

NODES, DIM, CLASSES = 300, 32, 4


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gin", "tagcn", "appnp", "sgc"])
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_what_is_replayed_is_done_as_before_to_the_bit(backbone: str, kind: str) -> None:
    """Other parameters, draws and rates each time; the third time comes from the recording."""
    device, generator = torch.device("cuda"), torch.Generator().manual_seed(0)
    edges = torch.randint(NODES, (2, 1500), generator=generator)
    adjacency = normalised_adjacency(edges[:, edges[0] != edges[1]].unique(dim=1), NODES).to(device)
    x = torch.randn(NODES, DIM, generator=generator).to(device)
    y = torch.randint(CLASSES, (NODES,), generator=generator).to(device)
    examples = Examples(x, adjacency, y, (torch.rand(NODES, generator=generator) < 0.5).to(device))
    config = RunConfig.from_flat({"model.backbone": backbone})
    model = initial_backbone(config, DIM, CLASSES).to(device)
    start, replay = parameters_of(model), Replay()

    def steps(draws: Any, rate: Any) -> Mapping[str, Tensor]:
        stepper = optimiser(model.parameters(), kind, rate, 0.9, 5e-4)
        return {
            "losses": walk(model, lambda: examples.loss(model(x, adjacency, draws)), stepper, 3, prox_mu=0.01)
        }

    for number, rate in enumerate((0.01, 0.02, 0.005, 0.03)):
        found = []
        for how in (lambda *given: replay((model, examples), steps, device, *given), None):
            load_parameters(model, {name: value * (1 + 0.1 * number) for name, value in start.items()})
            draws = torch.Generator(device).manual_seed(number)
            if how is None:
                losses = steps(draws, torch.tensor(rate, device=device))["losses"]
            else:
                losses = how(draws, rate)["losses"]
            found.append((losses.tolist(), parameters_of(model)))
        assert found[0][0] == found[1][0]
        assert all(torch.equal(found[0][1][name], value) for name, value in found[1][1].items())
    assert replay._recording is not None


def test_work_that_looks_at_the_device_is_done_all_the_same() -> None:
    device, replay = torch.device("cuda"), Replay()
    value = torch.zeros((), device=device)

    def work(draws: Any, rate: Any) -> Mapping[str, Tensor]:
        value.add_(float(value.item()) + 1)
        return {"value": value.clone()}

    seen = [float(replay((value,), work, device)["value"]) for _ in range(4)]
    assert seen == [1.0, 3.0, 7.0, 15.0]
