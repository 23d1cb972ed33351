from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import ProtocolError, QuorumError
from fedtag.common.secure.block import Block, Plan
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.member_keys import MemberKeys
from fedtag.common.secure.statement import signers, statement

NAMES = ("a", "b", "c", "d")
KEY = "09" + "00" * 31  # the base point: any agreement works with it
DIGEST = "ab" * 32
TOLD = bytes(32)


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    folder: Path = tmp_path_factory.mktemp("sites")
    return {name: Identity.at(folder / name) for name in NAMES}


@pytest.fixture(scope="module")
def plan(identities: dict[str, Identity]) -> Plan:
    return Block.planned("run-1", 2, {name: one.public for name, one in identities.items()})


@pytest.fixture(scope="module")
def block(plan: Plan) -> Block:
    return plan.completed({name: plan.accepted(name, published()) for name in NAMES})


def published() -> dict[str, Any]:
    return {"mask_keys": [KEY, KEY], "commitments": [DIGEST, DIGEST], "draw": ""}


def crossed(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def test_requests_say_the_same_at_the_other_end(plan: Plan, block: Block) -> None:
    there = Plan.from_json("run-1", crossed(plan.as_json()))
    assert there == plan
    joined = Block.from_json(there, crossed(block.as_json()))
    assert joined == block
    assert joined.digest == block.digest
    assert (block.run, block.id, block.sums, block.threshold) == ("run-1", plan.id, 2, 3)
    assert plan.ranks == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_a_planned_block_has_an_identifier_of_its_own(plan: Plan) -> None:
    assert Block.planned("run-1", 2, plan.asked).id != plan.id


def test_those_who_answered_keep_the_ranks_of_the_asked(plan: Plan) -> None:
    block = plan.completed({name: plan.accepted(name, published()) for name in ("d", "b", "c")})
    assert list(block.members) == ["b", "c", "d"]
    assert block.plan.ranks["d"] == 4
    with pytest.raises(QuorumError, match="2 of 4 members prepared the block, 3 are needed: bring back c, d"):
        plan.completed({name: plan.accepted(name, published()) for name in ("a", "b")})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("sums"), "a request to set up has block, draws, members, sums"),
        (lambda t: t.update(more=1), "a request to set up has"),
        (lambda t: t.update(block="zz" * 16), "the identifier of a block must be 32"),
        (lambda t: t.update(block=7), "the identifier of a block must be 32"),
        (lambda t: t.update(sums=0), "a block of 0 sums: it must have 1 to 1000"),
        (lambda t: t.update(sums=True), "a block of True sums"),
        (lambda t: t.update(sums=1.0), "a block of 1.0 sums"),
        (lambda t: t.update(sums=1001), "a block of 1001 sums"),
        (lambda t: t.update(members=[]), "members must be a table"),
        (lambda t: t.update(members={}), "0 member cannot hide"),
        (lambda t: t["members"].update({"../x": t["members"]["a"]}), "'../x' is no name of a member"),
        (lambda t: t["members"].update({"\ud800": t["members"]["a"]}), "is no name of a member"),
        (lambda t: t["members"].update(e=t["members"]["a"]), "a and e have the same key"),
        (lambda t: t["members"]["a"].pop("sign"), "the keys of a must be a table"),
    ],
)
def test_a_hostile_request_to_set_up_is_refused(
    plan: Plan, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    table = crossed(plan.as_json())
    change(table)
    with pytest.raises(ProtocolError, match=message):
        Plan.from_json("run-1", table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(block="00" * 16), "is not the one prepared last"),
        (lambda t: t.update(members=None), "members must be a table"),
        (lambda t: [t["members"].pop(name) for name in ("a", "b")], "2 of 4 members are too few"),
        (lambda t: t["members"]["a"].update(seal=KEY), "a has other keys than at set-up"),
        (
            lambda t: t["members"].update(e=t["members"]["a"]),
            "e has other keys than at set-up, or was not asked",
        ),
        (
            lambda t: t["members"]["a"].update(mask_keys=[KEY]),
            "the mask keys of a must be a list of 2, one a sum",
        ),
        (lambda t: t["members"]["a"].update(commitments={}), "the commitments of a must be a list of 2"),
        (lambda t: t["members"]["a"].pop("commitments"), "a must publish mask_keys, commitments and draw"),
        (lambda t: t["members"].update(a=3), "the keys of a must be a table"),
    ],
)
def test_a_hostile_request_to_join_is_refused(
    block: Block, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    table = crossed(block.as_json())
    change(table)
    with pytest.raises(ProtocolError, match=message):
        Block.from_json(block.plan, table)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {},
        {**published(), "more": 1},
        {**published(), "mask_keys": [KEY, "00" * 32]},
        {**published(), "mask_keys": [KEY]},
        {**published(), "commitments": [DIGEST, "ab"]},
    ],
)
def test_what_could_trip_the_others_is_not_accepted(plan: Plan, reply: Any) -> None:
    with pytest.raises(ProtocolError, match=r"a must publish|of a protects|of a must be"):
        plan.accepted("a", reply)
    with pytest.raises(ProtocolError, match="e was not asked"):
        plan.accepted("e", published())


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.text(), st.lists(st.text(max_size=3)))))
def test_any_other_table_is_a_breach_of_protocol(value: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        Plan.from_json("run-1", value)
    with pytest.raises(ProtocolError):
        MemberKeys.from_json(value, 1, "a")


def test_sums_are_numbered_from_zero(block: Block) -> None:
    assert block.slot(1).parts == ("run-1", block.id, 1)
    for index in (-1, 2, True, 1.0, "1", None):
        with pytest.raises(ProtocolError, match="is not in the block, whose sums are 0 to 1"):
            block.slot(index)


def test_the_digest_covers_everything(block: Block, identities: dict[str, Identity]) -> None:
    digests = {block.digest}
    keys = block.members["a"]
    changed_keys = [
        MemberKeys(identities["b"].public, keys.mask_keys, keys.commitments),
        MemberKeys(keys.identity, (keys.mask_keys[0], bytes(32)), keys.commitments),
        MemberKeys(keys.identity, keys.mask_keys, (bytes(32), keys.commitments[1])),
    ]
    for other in changed_keys:
        digests.add(Block(block.plan, {**block.members, "a": other}).digest)
    less = {name: entry for name, entry in block.members.items() if name != "d"}
    digests.add(Block(block.plan, less).digest)
    asked = dict(block.plan.asked)
    for plan in (
        Plan("run-2", block.id, 2, asked),
        Plan("run-1", "00" * 16, 2, asked),
        Plan("run-1", block.id, 3, asked),
        Plan("run-1", block.id, 2, {name: one for name, one in asked.items() if name != "d"}),
    ):
        digests.add(Block(plan, block.members).digest)
        digests.add(Block(plan, less).digest)
    assert len(digests) == 1 + 3 + 1 + 8
    assert Block(block.plan, dict(reversed(block.members.items()))).digest == block.digest


def test_a_statement_covers_sum_survivors_and_what_was_asked_for(block: Block) -> None:
    base = statement(block, 0, ["b", "a", "c"], TOLD)
    assert statement(block, 0, ["a", "b", "c"], TOLD) == base
    assert statement(block, 1, ["a", "b", "c"], TOLD) != base
    assert statement(block, 0, ["a", "b", "d"], TOLD) != base
    assert statement(block, 0, ["a", "b", "c"], bytes(31) + b"1") != base


def test_signers_are_those_whose_signature_holds(block: Block, identities: dict[str, Identity]) -> None:
    signed = statement(block, 0, NAMES, TOLD)
    signatures: dict[str, Any] = {name: one.sign(signed).hex() for name, one in identities.items()}
    assert signers(block, signed, signatures) == NAMES
    swapped = copy.copy(signatures) | {"a": signatures["b"], "b": None, "c": "text"}
    assert signers(block, signed, swapped) == ("d",)
    assert signers(block, signed + b"x", signatures) == ()
