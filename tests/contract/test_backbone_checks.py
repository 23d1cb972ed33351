"""A backbone that breaks a rule of the contract is told which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones import gcn, sage
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.spec import BackboneSpec
from fedtag.common.settings.registry import INTERFACE
from fedtag.runs.listing import register
from fedtag.testing.checks import shapes
from fedtag.testing.subject import Subject
from fedtag.testing.suite import Check


class Altered(Backbone):
    """Graph convolutions, of whose logits something is changed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.drawn = torch.rand(())

    def hidden_and_logits(
        self, x: Tensor, adjacency: Adjacency, generator: Any = None
    ) -> tuple[Tensor, Tensor]:
        hidden, logits = super().hidden_and_logits(x, adjacency, generator)
        return hidden, self.changed(logits)

    def changed(self, logits: Tensor) -> Tensor:
        raise NotImplementedError


class Counting(Altered):
    """It adds the places of nodes."""

    def changed(self, logits: Tensor) -> Tensor:
        return logits + torch.arange(len(logits))[:, None]


class Keeping(Altered):
    """It keeps something beside its parameters."""

    def changed(self, logits: Tensor) -> Tensor:
        return logits * self.drawn


def altered(kind: type[Altered]) -> Any:
    def build(inputs: int, hidden: int, classes: int, model: Any, table: Any, skip: bool = False) -> Altered:
        return kind(gcn.GCN, inputs, hidden, classes, model.layers, model.dropout, skip)

    return build


@pytest.mark.parametrize(
    ("build", "traits", "check", "message"),
    [
        (altered(Counting), {}, shapes.the_order_of_nodes_does_not_matter, "something else of nodes in another order"),
        (altered(Keeping), {}, shapes.its_parameters_are_all_that_it_is, "something else with the same parameters"),
        (sage.build, {}, shapes.links_and_weights_matter_as_it_says, "has reads_weights = True .* logits say False"),
        (
            gcn.build,
            {"reads_neighbours": False},
            shapes.links_and_weights_matter_as_it_says,
            "has reads_neighbours = False .* logits say True",
        ),
    ],
)  # fmt: skip
def test_what_is_broken_is_said(
    build: Any, traits: dict[str, bool], check: Check, message: str, tmp_path: Path, handed_over: None
) -> None:
    spec = BackboneSpec(name="broken", title="Broken", interface=INTERFACE, build=build, **traits)
    subject = Subject("backbone broken", {"method": "fedavg", "model.backbone": register(spec)}, tmp_path)
    with pytest.raises(AssertionError, match=message):
        check(subject)
