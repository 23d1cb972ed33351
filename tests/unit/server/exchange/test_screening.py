from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from fedtag.client.train.scoring import score_tensors
from fedtag.common.errors import RunError, WireError
from fedtag.common.methods.base import BASE_RECORDS
from fedtag.common.methods.records import Record, by_name
from fedtag.common.numerics.scores import LOCAL, tally
from fedtag.common.secure.upload import Opened
from fedtag.common.wire.records import Content, Instruction, Letter, Reply, prefixed
from fedtag.server.exchange.screening import (
    check_content,
    check_instructed,
    check_norm,
    check_origin,
    check_sum,
    tallies,
)
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.state import Agreement

DECLARED = by_name(
    (*BASE_RECORDS, Record("update", "an update"), Record("own", "its own", form="value", schema=int))
)
AGREEMENT = Agreement(("a", "b"), 4, "features.npy")
EXPECTED = {"update/w": TensorForm((2, 3), torch.float32), "update/n": TensorForm((), torch.int64)}
SIZES = {"nodes": 10, "train_nodes": 4, "val_nodes": 2, "test_nodes": 3}
INSTRUCTION = Instruction("run", 5, 3, "train", Content())


def scores(path: str = "graph", val: int = 2, test: int = 3) -> dict[str, torch.Tensor]:
    """What an honest client counts over random predictions."""
    tensors = {}
    for subset, count in (("val", val), ("test", test)):
        logits = torch.randn(count, 2, generator=torch.Generator().manual_seed(count))
        every = torch.ones(count, dtype=torch.bool)
        counts = tally(logits, torch.arange(count) % 2, every, ranked=path != LOCAL)
        tensors |= score_tensors(path, {subset: counts})
    return prefixed("scores", tensors)


def reply(tensors: Mapping[str, torch.Tensor] | None = None, **values: Any) -> Reply:
    update = {"update/w": torch.ones(2, 3), "update/n": torch.tensor(3)}
    honest = {
        "sizes": SIZES,
        "training": {"loss": 0.5, "steps": 3},
        "seconds": {"train": 0.25, "score": 0},
        "condensation": {"core": 2, "nodes": 10},
    }
    content = Content({**update, **scores()} if tensors is None else tensors, {**honest, **values})
    return Reply("run", 5, 3, "train", "site A-1", content)


def refuse(bad: Reply, message: str) -> None:
    with pytest.raises(WireError, match=message):
        check_content(bad, EXPECTED, AGREEMENT, DECLARED)


def test_a_valid_reply_passes() -> None:
    check_origin(reply(), INSTRUCTION)
    check_content(reply(), EXPECTED, AGREEMENT, DECLARED)
    check_content(reply(scores()), EXPECTED, AGREEMENT, DECLARED)
    for normaliser in (0, 2.5, 1e9):
        told = {"loss": 0.5, "steps": 3, "normaliser": normaliser, "more": 1}
        check_content(reply(training=told), EXPECTED, AGREEMENT, DECLARED)
    check_content(reply({**scores(), **scores("local")}), EXPECTED, AGREEMENT, DECLARED)
    found = tallies(reply(), "graph")
    assert {subset: counts.nodes for subset, counts in found.items()} == {"val": 2, "test": 3}
    assert tallies(reply(), "evidence") == {}
    empty = {"nodes": 0, "train_nodes": 0, "val_nodes": 0, "test_nodes": 0}
    check_content(reply(scores(val=0, test=0), sizes=empty), {}, AGREEMENT, DECLARED)


@pytest.mark.parametrize(
    ("field", "value"), [("run", "other"), ("step", 4), ("round", 2), ("phase", "score")]
)
def test_what_belongs_to_another_exchange_is_refused(field: str, value: Any) -> None:
    with pytest.raises(WireError, match=f"belongs to {field} .*: stale or replayed"):
        check_origin(replace(reply(), **{field: value}), INSTRUCTION)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\nb", "a\n", "x" * 65, "-a", " a", "\u202e", "a\0"]
)
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(WireError, match="no valid name"):
        check_origin(replace(reply(), client=name), INSTRUCTION)


@pytest.mark.parametrize("name", ["a", "client-00", "Universität 3", "病院", "x@y.org", "x" * 64])
def test_good_names_pass(name: str) -> None:
    check_origin(replace(reply(), client=name), INSTRUCTION)


TENSOR_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "NaN": ({"update/w": torch.full((2, 3), torch.nan)}, "'update/w' has values that are not finite"),
    "inf": ({"update/w": torch.full((2, 3), -torch.inf)}, "not finite"),
    "huge": ({"update/w": torch.full((2, 3), -1e30)}, "beyond"),
    "shape": ({"update/w": torch.ones(3, 2)}, r"shape \(3, 2\)"),
    "rank": ({"update/w": torch.ones(6)}, r"shape \(6,\)"),
    "dtype": ({"update/w": torch.ones(2, 3).half()}, "type torch.float16"),
    "complex": ({"update/w": torch.ones(2, 3, dtype=torch.complex64)}, "complex64"),
    "missing": ({"update/w": None}, r"missing \['update/w'\]"),
    "surplus": ({"update/v": torch.ones(1)}, r"not asked for \['update/v'\]"),
    "another kind": ({"best/w": torch.ones(2, 3)}, "not asked for"),
    "no kind": ({"scores": torch.ones(1)}, "not asked for"),
    "undeclared": ({"secret/w": torch.ones(2, 3)}, "'secret' is declared by nothing in this run"),
}


@pytest.mark.parametrize("fault", TENSOR_FAULTS)
def test_faulty_contributions_are_refused(fault: str) -> None:
    changes, message = TENSOR_FAULTS[fault]
    tensors = {**reply().content.tensors, **changes}
    refuse(reply({name: value for name, value in tensors.items() if value is not None}), message)


def test_a_method_without_contributions_takes_none() -> None:
    with pytest.raises(WireError, match="not asked for"):
        check_content(reply(), {}, AGREEMENT, DECLARED)


def wrap(confusion: torch.Tensor) -> torch.Tensor:
    """Four times 2^62 is 0 in 64 bits."""
    return torch.full_like(confusion, 2**62)


SCORE_FAULTS: dict[str, tuple[str, Callable[[torch.Tensor], Any], str]] = {
    "missing field": ("scores/graph/val/bin_nodes", lambda v: None, "missing"),
    "surplus field": ("scores/graph/val/more", lambda v: torch.ones(1), "not asked for"),
    "deeper": ("scores/graph/val/confusion/x", lambda v: torch.ones(1), "not asked for"),
    "subset": ("scores/graph/train/confusion", lambda v: torch.ones(2, 2), "of val and of test"),
    "no subset": ("scores/graph", lambda v: torch.ones(1), "of val and of test"),
    "no path": ("scores/", lambda v: torch.ones(1), "of val and of test"),
    "half a path": ("scores/evidence/val/confusion", lambda v: torch.ones(2, 2), "of val and of test"),
    "classes": ("scores/graph/test/confusion", lambda v: torch.zeros(3, 3, dtype=torch.int64), "has shape"),
    "float counts": ("scores/graph/test/confusion", lambda v: v.float(), "type torch.float32"),
    "negative": ("scores/graph/test/confusion", lambda v: v - 1, "negative counts"),
    "too many": ("scores/graph/test/confusion", lambda v: v + 1, "count other nodes"),
    "wraps": ("scores/graph/test/confusion", wrap, "count more nodes"),
    "too few": ("scores/graph/test/bin_nodes", torch.zeros_like, "count other nodes"),
    "NaN": ("scores/graph/test/bin_confidence", lambda v: v * torch.nan, "not finite"),
    "confidence": ("scores/graph/test/bin_confidence", lambda v: v + 2, "confidences above 1"),
    "correct": ("scores/graph/test/bin_correct", lambda v: v + 1, "correct predictions"),
    "no ranks": ("scores/graph/test/ranks", lambda v: None, "missing"),
    "ranks of bins": ("scores/graph/test/ranks", lambda v: v.repeat(1, 1, 2), "has shape"),
    "ranks of classes": ("scores/graph/test/ranks", lambda v: v.repeat(1, 3, 1), "has shape"),
    "float ranks": ("scores/graph/test/ranks", lambda v: v * torch.nan, "type torch.float32"),
    "negative ranks": ("scores/graph/test/ranks", lambda v: v - 1, "negative counts"),
    "ranks beyond": ("scores/graph/test/ranks", lambda v: v + 9, "count more nodes"),
    "ranks that wrap": ("scores/graph/test/ranks", lambda v: v + (2**31 - 10), "count more nodes"),
    "ranks of nobody": ("scores/graph/test/ranks", torch.zeros_like, "rank other nodes"),
    "ranks of the other class": ("scores/graph/test/ranks", lambda v: v.flip(1), "rank other nodes"),
    "ranks of others": ("scores/graph/test/ranks", lambda v: v.flip(0), "rank other nodes"),
    "local ranks": ("scores/local/test/ranks", lambda v: torch.ones(1), "of val and of test"),
    "correct elsewhere": ("scores/graph/test/bin_correct", lambda v: v.roll(1), "correct predictions"),
}


@pytest.mark.parametrize("fault", SCORE_FAULTS)
def test_impossible_scores_are_refused(fault: str) -> None:
    name, change, message = SCORE_FAULTS[fault]
    tensors = scores(test=3)
    changed = change(tensors.get(name, torch.ones(1)))
    if changed is None:
        del tensors[name]
    else:
        tensors[name] = changed
    refuse(reply(tensors), message)


def test_sizes_must_fit_together() -> None:
    refuse(reply(sizes={**SIZES, "train_nodes": 6}), "more training, validation and test nodes than nodes")
    refuse(
        reply(sizes={**SIZES, "test_nodes": 2}), "count other nodes than the 2|count more nodes than the 2"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"training": {"loss": 1.0, "steps": -1}}, "training: steps: "),
        ({"seconds": [1]}, "seconds: "),
        ({"own": 1.5}, "own: "),
        ({"own": True}, "own: "),
        ({"other": 1}, "'other' is declared by nothing in this run"),
        ({"sum": {}}, "'sum' is no value that clients send"),
        ({"update": 1}, "'update' is no value that clients send"),
    ],
)
def test_values_that_are_not_as_declared_are_refused(values: dict[str, Any], message: str) -> None:
    refuse(reply(**values), message)


def test_values_of_a_method_pass_as_declared() -> None:
    check_content(reply(own=3), EXPECTED, AGREEMENT, DECLARED)


def test_a_reply_that_counts_says_of_how_many_nodes() -> None:
    content = Content({}, {"seconds": {}})
    refuse(replace(reply(), content=content), "does not say how many nodes it has")


def test_a_letter_bears_the_name_of_its_sender() -> None:
    honest = reply()
    for sender in ("site A-1", "site B"):
        content = replace(honest.content, letters=(Letter(sender, "site B", "keys", b"x"),))
        if sender == honest.client:
            check_content(replace(honest, content=content), EXPECTED, AGREEMENT, DECLARED)
        else:
            refuse(replace(honest, content=content), "another sender")


def test_an_update_longer_than_the_bound_is_refused() -> None:
    update = {"update/w": torch.full((2, 3), 2.0), "update/n": torch.tensor(10**9)}
    sent = reply({**update, **scores(), "other/w": torch.full((9,), 100.0)})
    norm = math.sqrt(6 * 4)
    for most in (0.0, norm, 5.0):
        check_norm(sent, most)
    message = r"the update's L2 norm 4\.89898 exceeds aggregation\.max-update-norm \(4\.5\)"
    with pytest.raises(WireError, match=message):
        check_norm(sent, 4.5)
    check_norm(reply(scores()), 1e-9)
    with pytest.raises(WireError, match="norm nan exceeds"):
        check_norm(reply({"update/w": torch.full((2, 3), torch.nan)}), 4.5)


@pytest.mark.parametrize("told", [{"sizes": SIZES}, {}])
def test_nothing_that_was_to_be_hidden_may_come_in_clear(told: dict[str, Any]) -> None:
    tensors = {} if told else scores()
    content = Content(tensors, told)
    with pytest.raises(WireError, match="in clear that it was to hide, or that nobody asked for"):
        check_content(replace(reply(), content=content), {}, AGREEMENT, DECLARED, sized=False)
    check_content(
        replace(reply(), content=Content({}, {"seconds": {}})), {}, AGREEMENT, DECLARED, sized=False
    )


def opened(**changes: Any) -> Opened:
    """A sum as honest clients have it; a client that did not train has no local score."""
    counts = {**Content(scores()).section("scores"), **Content(scores("local", 1, 2)).section("scores")}
    honest = Opened({"w": torch.ones(2, 3, dtype=torch.float64)}, 3.0, 0.75, SIZES, 0.5, counts)
    return replace(honest, **changes)


def test_a_sum_that_can_be_true_passes() -> None:
    check_sum(opened(), 0.75, 2, 3)
    check_sum(opened(weight=0.0, steps=0.0), 1.0, 2, 3)
    check_sum(opened(sizes={}, scores={}, loss=None), 0.75, 2, 3)
    check_sum(opened(users={"w": 3}, shares={"w": 0.75}), 0.75, 2, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": 0.76}, "weights of 0.75 cannot sum to 0.76"),
        ({"weight": -0.1}, "cannot sum to -0.1"),
        ({"weight": math.nan}, "cannot sum to nan"),
        ({"steps": -1.0}, "no number of effective steps"),
        ({"steps": 1e10}, "no number of effective steps"),
        ({"update": {"w": torch.tensor([0.0, 2e6], dtype=torch.float64)}}, "beyond ±1e"),
        ({"sizes": {**SIZES, "nodes": -1}}, "sizes: nodes: "),
        ({"sizes": {**SIZES, "nodes": 8}}, "more training, validation and test nodes than nodes"),
        ({"sizes": {**SIZES, "val_nodes": 1}}, "'graph/val' count 2 of 1 nodes"),
        ({"users": {"w": 4}}, "4 of 3 clients cannot use 'w'"),
        ({"users": {"w": -1}}, "-1 of 3 clients cannot use 'w'"),
        ({"shares": {"w": 0.76}}, "the weights of the users of 'w' cannot sum to 0.76"),
        ({"shares": {"w": -0.1}}, "the weights of the users of 'w' cannot sum to -0.1"),
    ],
)
def test_a_sum_that_nobody_can_have_sent_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError, match=message):
        check_sum(opened(**changes), 0.75, 2, 3)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("confusion", "count -1 of 3 nodes|negative"),
        ("bin_nodes", "negative|other nodes"),
        ("bin_correct", "negative|other correct"),
        ("bin_confidence", "negative|confidences above 1"),
        ("ranks", "negative"),
    ],
)
@pytest.mark.parametrize("value", [-1, 9])
def test_a_sum_of_scores_that_contradict_each_other_is_refused(field: str, message: str, value: int) -> None:
    counts = dict(opened().scores)
    name = f"graph/test/{field}"
    counts[name] = torch.full_like(counts[name], value)
    with pytest.raises(WireError, match=rf"{message}|count \d+ of|-\d+ of|more nodes"):
        check_sum(opened(scores=counts), 0.75, 2, 3)


def test_an_optional_tensor_may_be_missing_but_not_have_another_form() -> None:
    forms = {**EXPECTED, "update/own": TensorForm((2,), torch.float32, optional=True)}
    check_content(reply(), forms, AGREEMENT, DECLARED)
    whole = {"update/w": torch.ones(2, 3), "update/n": torch.tensor(3)}
    check_content(reply({**whole, "update/own": torch.ones(2)}), forms, AGREEMENT, DECLARED)
    for wrong in (torch.ones(3), torch.tensor([1.0, math.nan])):
        with pytest.raises(WireError, match="update/own"):
            check_content(reply({**whole, "update/own": wrong}), forms, AGREEMENT, DECLARED)
    with pytest.raises(WireError, match="missing"):
        check_content(reply({"update/own": torch.ones(2)}), forms, AGREEMENT, DECLARED)


@pytest.mark.parametrize(
    ("shape", "dtype", "fits"),
    [
        ((0, 3), torch.uint8, True),
        ((9, 3), torch.uint8, True),
        ((9, 4), torch.uint8, False),
        ((9,), torch.uint8, False),
        ((), torch.uint8, False),
        ((9, 3), torch.int64, False),
    ],
)
def test_a_tensor_of_any_length_is_bound_in_all_else(
    shape: tuple[int, ...], dtype: torch.dtype, fits: bool
) -> None:
    assert TensorForm((0, 3), torch.uint8, any_length=True).fits(shape, dtype) is fits
    assert TensorForm(shape, dtype).fits(shape, dtype)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (Content({"balance/w": torch.zeros(2)}), "balance"),
        (Content({"update/w": torch.zeros(2)}, {"portions": [0.5]}), "portions"),
    ],
)
def test_what_nothing_declares_is_sent_to_nobody(content: Content, name: str) -> None:
    with pytest.raises(
        RunError, match=rf"^method own, .* sends clients '{name}', which is not declared: declare it"
    ):
        check_instructed(content, DECLARED, "own")
    check_instructed(content, {**DECLARED, name: Record(name, "it")}, "own")
