from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fedtag.common.errors import ProtocolError
from fedtag.common.methods.records import Record, by_name
from fedtag.common.methods.told import OWN, told_digest
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wire.records import Content, Instruction, Letter, prefixed
from fedtag.common.wire.serialisation import instruction_of, serialised

DECLARED = by_name((Record("model", "it"), Record("teacher", "it, or its fingerprint", alone=True)))
TEACHER = {"w": torch.arange(4.0)}
VALUES: dict[str, Any] = {
    "sum": {"index": 0, "weights": {"b": 0.5, "a": 0.5}},
    "longer": ["a"],
    "seconds": 0.1,
}
BASE = Instruction("run", 3, 2, "train", Content({"model/w": torch.ones(3)}, VALUES))


def digest(instruction: Instruction, settings: str = "s") -> bytes:
    return told_digest(instruction, DECLARED, settings)


def changed(**values: Any) -> Instruction:
    return replace(BASE, content=replace(BASE.content, values={**VALUES, **values}))


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, run="another"),
        replace(BASE, step=4),
        replace(BASE, round=1),
        replace(BASE, phase="close"),
        replace(BASE, content=Content({"model/w": torch.zeros(3)}, VALUES)),
        replace(BASE, content=Content({"model/v": torch.ones(3)}, VALUES)),
        replace(BASE, content=Content({}, VALUES)),
        changed(longer=[]),
        changed(seconds=0.0),
        changed(more=None),
        changed(sum={"index": 1, "weights": {"b": 0.5, "a": 0.5}}),
        changed(sum={"index": 0, "weights": {"b": 0.5 + 2**-53, "a": 0.5}}),
    ],
    ids=lambda one: f"{one.phase} {one.step} {sorted(one.content.values)}",
)
def test_whatever_shapes_an_answer_changes_the_digest(other: Instruction) -> None:
    assert digest(other) != digest(BASE)


def test_settings_change_the_digest() -> None:
    assert digest(BASE, "other") != digest(BASE)


@pytest.mark.parametrize("name", sorted(OWN))
def test_who_a_site_is_and_whom_it_joins_may_differ(name: str) -> None:
    letter = Letter("a", "b", "shares", b"sealed")
    own = replace(changed(**{name: {"any": "thing"}}))
    assert digest(replace(own, content=replace(own.content, letters=(letter,)))) == digest(BASE)


def test_the_values_that_may_differ_are_few_and_known() -> None:
    """A new one needs a reason in docs/threat-model.md: what stands here, a lying server can tell one site alone."""
    assert {"introduce", "ingredients", "join"} == OWN


def test_what_one_lacks_comes_alone_if_all_are_told_its_fingerprint() -> None:
    told = changed(teacher=fingerprint(TEACHER))
    brought = replace(
        told, content=replace(told.content, tensors={**BASE.content.tensors, **prefixed("teacher", TEACHER)})
    )
    assert digest(brought) == digest(told) != digest(BASE)
    for wrong in (
        changed(),
        changed(teacher=fingerprint({"w": torch.zeros(4)})),
        changed(teacher=None),
    ):
        tensors = {**BASE.content.tensors, **prefixed("teacher", TEACHER)}
        with pytest.raises(
            ProtocolError, match="tensors of 'teacher' are not those that all members were told of"
        ):
            digest(replace(wrong, content=replace(wrong.content, tensors=tensors)))


def test_both_sides_of_the_wire_compute_the_same() -> None:
    """Keys that are numbers, tuples and the order of tables are not what they were after a message is read."""
    sent = changed(
        table={10: (1, 2), 9: [0.1, 1e-30], 1: {"b": None, "a": True}},
        text="\N{GRINNING FACE}",
    )
    assert digest(instruction_of(serialised(sent))) == digest(sent)


def test_the_digest_is_the_same_in_every_release() -> None:
    assert digest(BASE).hex() == GOLDEN


GOLDEN = "c8e404dc4c634e12e63f79f042450fb47d66e8433ffd76c027a70604fdff2785"
