"""What breaks a rule of the contract is told which; what breaks none is not told of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.methods.base import ClientMethod
from fedtag.common.wire.records import Content
from fedtag.runs.listing import register
from fedtag.testing.checks import labels, lacking, prediction, repetition, saying
from fedtag.testing.subject import Subject
from fedtag.testing.suite import Check
from tests.objects import method_spec


@pytest.fixture
def broken(tmp_path: Path, handed_over: None) -> Callable[..., Subject]:
    """A method with another client, and what is checked of it."""

    def made(client: ClientMethod[None], **changes: Any) -> Subject:
        name = register(method_spec("broken", client, **changes))
        return Subject(f"method {name}", {"method": name}, tmp_path)

    return made


def moved(content: Content, factor: float) -> Content:
    """The same with another update."""
    changed = {name: value * factor for name, value in content.tensors.items() if name.startswith("update/")}
    return Content({**content.tensors, **changed}, content.values)


class Chance(ClientMethod[None]):
    """It draws without a seed."""

    def after_training(self, *arguments: Any) -> Content:
        return moved(super().after_training(*arguments), float(torch.rand(())))


class Cheating(ClientMethod[None]):
    """It trains on nodes of another split, too."""

    def __init__(self, split: str) -> None:
        self.split = split

    def examples(self, model: Any, data: Any, context: Any) -> Any:
        examples, reported = super().examples(model, data, context)
        if examples is not None:
            examples.mask[getattr(data.graph, f"{self.split}_mask")] = True
        return examples, reported


class Greedy(ClientMethod[None]):
    """It needs a training node."""

    def train(self, data: Any, context: Any) -> Content:
        data.graph.train_mask.nonzero()[0]
        return super().train(data, context)


class Forgetful(ClientMethod[None]):
    """What it sends follows from how often this process was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def after_training(self, *arguments: Any) -> Content:
        self.asked += 1
        return moved(super().after_training(*arguments), self.asked)


class Stubborn(ClientMethod[None]):
    """It sends the same, whatever it learns."""

    def after_training(self, *arguments: Any) -> Content:
        content = super().after_training(*arguments)
        same = {n: torch.ones_like(value) for n, value in content.tensors.items() if n.startswith("update/")}
        return Content({**content.tensors, **same}, content.values)


class Wavering(ClientMethod[None]):
    """It predicts the class of which it is least sure."""

    def predict(self, *arguments: Any, **more: Any) -> Any:
        made = super().predict(*arguments, **more)
        return replace(made, logits=-made.logits)


@pytest.mark.parametrize(
    ("client", "check", "told"),
    [
        (Chance(), repetition.the_same_seed_gives_the_same_bits, "when it is run again"),
        (Forgetful(), repetition.each_message_may_find_another_process, "in other processes"),
        (Forgetful(), repetition.a_stopped_run_goes_on_to_the_same_bits, "after a stop"),
        (Stubborn(), repetition.another_seed_gives_another_update, "learns the same with another seed"),
        (Cheating("test"), labels.labels_of_test_nodes_change_no_model, "when labels of test nodes change"),
        (
            Cheating("val"),
            labels.labels_of_judging_nodes_reach_no_training,
            "when labels of judging validation nodes change",
        ),
        (Greedy(), lacking.clients_that_lack_something_take_part, "fails at clients that lack something"),
        (Wavering(), prediction.predictions_score_as_the_run_did, "otherwise than it scored them"),
    ],
    ids=lambda one: getattr(one, "__name__", type(one).__name__),
)
def test_a_broken_rule_is_told(
    broken: Callable[..., Subject], client: ClientMethod[None], check: Check, told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        check(broken(client))


def test_a_faultless_one_is_not_told_of(broken: Callable[..., Subject]) -> None:
    subject = broken(ClientMethod())
    for check in (
        repetition.the_same_seed_gives_the_same_bits,
        repetition.another_seed_gives_another_update,
        labels.labels_of_test_nodes_change_no_model,
        labels.labels_of_judging_nodes_reach_no_training,
        lacking.clients_that_lack_something_take_part,
        prediction.predictions_score_as_the_run_did,
    ):
        check(subject)


def test_what_says_nothing_or_names_nothing_is_told(broken: Callable[..., Subject]) -> None:
    with pytest.raises(AssertionError, match="has no title"):
        saying.it_says_what_it_is(broken(ClientMethod(), title=" "))
