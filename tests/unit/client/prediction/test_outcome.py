from __future__ import annotations

import pytest
import torch
from torch import nn

from fedtag.client.prediction.outcome import ReleasedModel, load_released
from fedtag.common.errors import RunError
from fedtag.common.models.parameters import parameters_of


def test_the_parameters_become_those_of_the_model() -> None:
    given = {name: torch.full_like(value, 2.0) for name, value in nn.Linear(2, 3).state_dict().items()}
    model = load_released(nn.Linear(2, 3), ReleasedModel(given, 1, "graph"))
    assert all(torch.equal(value, given[name]) for name, value in parameters_of(model).items())


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Linear(2, 4), r"\(bias and 1 more\)"),
        (nn.Linear(2, 3, bias=False), r"\(bias\)"),
        (nn.Linear(2, 3).double(), r"\(bias and 1 more\)"),
        (nn.Sequential(nn.Linear(2, 3)), r"\(0\.bias and 3 more\)"),
    ],
)
def test_parameters_of_another_model_are_refused(model: nn.Module, sentence: str) -> None:
    released = ReleasedModel(nn.Linear(2, 3).state_dict(), 1, "graph")
    with pytest.raises(RunError, match=f"do not fit the model that its settings describe {sentence}"):
        load_released(model, released)
