"""`fedtag.testing`: what is built in passes it, and what breaks one of its rules is told which."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.methods.base import ClientMethod
from fedtag.common.wire.records import Content
from fedtag.runs.listing import register
from fedtag.testing import check_backbone, check_condenser, check_method, check_part
from fedtag.testing import checks as asked
from fedtag.testing.subject import Subject
from tests.contract.conftest import QUICK, QUICK_FEDGC
from tests.objects import method_spec

FEDGC = {key: value for key, value in QUICK_FEDGC.items() if "links" not in key and "bottleneck" not in key}
BUILT_IN: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "fedavg": (check_method, {}),
    "herding": (check_condenser, {}),
    "mlp": (check_backbone, {}),
}
SLOW: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    **{name: (check_method, {}) for name in ("isolated", "centralised", "fedprox", "dance", "da_dfgas")},
    "fedc4": (check_method, QUICK),
    "fedgc": (check_method, FEDGC),
    "neighbour-generator": (check_part, {}),
    **{name: (check_condenser, {}) for name in ("random", "k-center", "coarsening", "dance-core")},
    **dict.fromkeys(("gcond", "gcond-x", "doscond", "sfgc"), (check_condenser, QUICK)),
    **{name: (check_backbone, {}) for name in ("gcn", "sage", "gat", "tagcn")},
}


@pytest.mark.parametrize("name", [*BUILT_IN, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_what_is_built_in_keeps_it(name: str) -> None:
    check, settings = {**BUILT_IN, **SLOW}[name]
    check(name, settings)


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
    """It trains on test nodes, too."""

    def examples(self, model: Any, data: Any, context: Any) -> Any:
        examples, reported = super().examples(model, data, context)
        if examples is not None:
            examples.mask[data.graph.test_mask] = True
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


@pytest.mark.parametrize(
    ("client", "check", "told"),
    [
        (
            Chance(),
            asked.the_same_seed_gives_the_same_bits,
            "when it is run again",
        ),
        (Cheating(), asked.labels_of_test_nodes_change_no_model, "when labels of test nodes change"),
        (Greedy(), asked.clients_that_lack_something_take_part, "fails at clients that lack something"),
        (Forgetful(), asked.a_stopped_run_goes_on_to_the_same_bits, "after a stop"),
    ],
)
def test_a_broken_rule_is_told(
    broken: Callable[..., Subject], client: ClientMethod[None], check: asked.Check, told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        check(broken(client))


def test_a_faultless_one_is_not_told_of(broken: Callable[..., Subject]) -> None:
    subject = broken(ClientMethod())
    for check in (asked.the_same_seed_gives_the_same_bits, asked.labels_of_test_nodes_change_no_model):
        check(subject)


def test_what_says_nothing_or_names_nothing_is_told(broken: Callable[..., Subject]) -> None:
    with pytest.raises(AssertionError, match="has no title"):
        asked.it_says_what_it_is(broken(ClientMethod(), title=" "))
