from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fedtag.client.secure.member import Member
from fedtag.common.errors import DivergenceError, ProtocolError
from fedtag.common.secure.agreement import public_bytes
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.masks import Slot, commitment, mask_key, masked, pair_key, self_key

if TYPE_CHECKING:
    from tests.unit.client.secure.conftest import Sites

EVEN = dict.fromkeys("abcd", 0.25)
VECTOR = np.linspace(-3, 3, 50)
TOLD = bytes(32)


def own_secrets(sites: Sites, name: str) -> dict[int, tuple[bytes, bytes]]:
    held = sites[name]._vault.load()
    assert held is not None
    return dict(held.secrets)


def test_set_up_publishes_what_belongs_to_the_secrets(sites: Sites) -> None:
    plan = sites.plan(3)
    block = sites.set_up(plan)
    for name in sites.names:
        for index, (secret, alone) in own_secrets(sites, name).items():
            slot = Slot("run-1", plan.id, index)
            assert public_bytes(mask_key(secret, slot, name)) == block.members[name].mask_keys[index]
            assert commitment(alone, slot, name) == block.members[name].commitments[index]
    drawn = [part for name in sites.names for pair in own_secrets(sites, name).values() for part in pair]
    assert len(set(drawn)) == 4 * 3 * 2  # nothing is used twice
    assert {(letter.sender, letter.recipient) for letter in sites.letters} == {
        (one, two) for one in sites.names for two in sites.names if one != two
    }


def test_an_upload_is_the_formula(sites: Sites) -> None:
    block = sites.joined(2)
    secret, alone = own_secrets(sites, "b")[1]
    upload = sites["b"].mask(1, VECTOR, EVEN, TOLD)
    slot = block.slot(1)
    private = mask_key(secret, slot, "b")
    pairs = {
        peer: pair_key(private, block.members[peer].mask_keys[1], slot, "b", peer, TOLD)
        for peer in ("a", "c", "d")
    }
    expected = masked(
        sites["b"].fixed.encode(VECTOR), [self_key(alone, slot, "b"), pairs["c"], pairs["d"]], [pairs["a"]]
    )
    assert np.array_equal(upload, expected)


def test_single_precision_is_masked_as_the_same_numbers(sites: Sites) -> None:
    sites.joined(1)
    sites["a"].mask(0, VECTOR.astype(np.float32), EVEN, TOLD)  # type: ignore[arg-type]


def test_a_run_identifier_that_leaves_its_folder_is_refused(sites: Sites) -> None:
    with pytest.raises(ProtocolError, match="is no identifier"):
        Member("a", "../other", sites.folder, sites.identity("a"), None, FixedPoint(40, 1.0))


def test_set_up_is_refused_twice_and_with_other_keys(sites: Sites) -> None:
    plan = sites.plan(1)
    request = plan.as_json()
    sites["a"].set_up(request)
    with pytest.raises(ProtocolError, match="was set up before: plan a new one"):
        sites["a"].set_up(request)
    swapped = {**request, "members": {**request["members"], "b": request["members"]["a"]}}
    with pytest.raises(ProtocolError, match="a and b have the same key"):
        sites["b"].set_up(swapped)
    foreign = {**request["members"], "b": request["members"]["c"], "c": request["members"]["b"]}
    with pytest.raises(ProtocolError, match="the block has other keys of b than its own"):
        sites["b"].set_up({**request, "members": foreign})
    absent = {name: keys for name, keys in request["members"].items() if name != "b"}
    with pytest.raises(ProtocolError, match="the block has other keys of b than its own"):
        sites["b"].set_up({**request, "members": absent})


def test_more_members_than_64_bits_can_add_are_refused(sites: Sites) -> None:
    member = sites["a"]
    member.fixed = FixedPoint(52, 500.0)
    assert member.fixed.most_clients == 4
    member.fixed = FixedPoint(52, 600.0)
    with pytest.raises(ProtocolError, match="4 members could overflow 64 bits, 3 cannot"):
        member.set_up(sites.plan(1).as_json())


def test_a_roster_decides_whose_keys_count(sites_of: Callable[..., Sites]) -> None:
    sites = sites_of("a", "b", "c", "d", roster=True)
    plan = sites.plan(1)
    sites["a"].set_up(plan.as_json())
    assert sites.roster is not None
    for roster in (
        {name: key for name, key in sites.roster.items() if name != "d"},
        {**sites.roster, "d": sites.identity("stranger").public},
    ):
        member = sites["b"]
        member.roster = roster
        with pytest.raises(ProtocolError, match="the keys of d are not those in the roster of b"):
            member.set_up(plan.as_json())


def test_joining_again_changes_nothing_and_otherwise_is_refused(sites: Sites) -> None:
    block = sites.joined(2)
    request, letters = block.as_json(), sites.for_site("a")
    before = sites.stored("a")
    assert sites["a"].join(request, letters[::-1]) == ()
    assert sites.stored("a") == before
    less = {name: keys for name, keys in request["members"].items() if name != "d"}
    with pytest.raises(ProtocolError, match="was joined with other members, keys or letters"):
        sites["a"].join({**request, "members": less}, letters)
    with pytest.raises(ProtocolError, match="was joined with other members, keys or letters"):
        sites["a"].join(request, letters[1:])


def test_joining_with_other_own_keys_or_without_set_up_is_refused(sites: Sites) -> None:
    plan = sites.plan(1)
    with pytest.raises(ProtocolError, match="a has set up no block in this run"):
        sites["a"].join({"block": plan.id, "members": {}}, ())
    block = sites.set_up(plan)
    with pytest.raises(ProtocolError, match="a has not joined block"):
        sites["a"].mask(0, VECTOR, EVEN, TOLD)
    request = block.as_json()
    request["members"]["a"]["mask_keys"] = request["members"]["b"]["mask_keys"]
    with pytest.raises(ProtocolError, match="the block has other keys of a than it published"):
        sites["a"].join(request, sites.for_site("a"))
    without = {name: keys for name, keys in block.as_json()["members"].items() if name != "a"}
    with pytest.raises(ProtocolError, match="the block has other keys of a than it published"):
        sites["a"].join({"block": block.id, "members": without}, sites.for_site("a"))


def test_letters_that_are_not_right_count_as_none(sites: Sites) -> None:
    block = sites.set_up(sites.plan(2))
    of = {letter.sender: letter for letter in sites.for_site("a")}
    elsewhere = next(letter for letter in sites.letters if (letter.sender, letter.recipient) == ("b", "c"))
    flipped = bytes([of["d"].body[0] ^ 1]) + of["d"].body[1:]
    letters = [
        replace(elsewhere, recipient="a"),  # misaddressed
        replace(of["b"], sender="c"),  # under another name
        replace(of["c"], kind="gift"),
        replace(of["d"], body=flipped),
        replace(of["d"], sender="\ud800"),
        replace(of["d"], body=b""),
    ]
    assert sites["a"].join(block.as_json(), letters) == ("b", "c", "d")
    for name in ("b", "c", "d"):
        sites[name].join(block.as_json(), sites.for_site(name))
    for name in sites.names:
        sites[name].mask(0, VECTOR, EVEN, TOLD)
    release = {"opened": [], "index": 0, "survivors": ["a", "b", "c"], "signatures": None}
    assert set(sites["a"].release(release)["self"]) == {"a"}
    assert sites["a"].release(release)["pair"] == {}
    assert set(sites["b"].release(release)["self"]) == {"a", "b", "c"}
    assert set(sites["b"].release(release)["pair"]) == {"d"}


def test_a_letter_of_an_earlier_block_counts_as_none(sites: Sites) -> None:
    sites.joined(2)
    old = sites.for_site("a")
    block = sites.set_up(sites.plan(2))
    assert sites["a"].join(block.as_json(), old) == ("b", "c", "d")


def test_a_sum_is_masked_once_and_none_before_it(sites: Sites) -> None:
    sites.joined(4)
    sites["a"].mask(1, VECTOR, EVEN, TOLD)
    for index in (0, 1):
        with pytest.raises(ProtocolError, match=f"sum {index} was masked or passed over before"):
            sites["a"].mask(index, VECTOR, EVEN, TOLD)
    sites["a"].mask(3, VECTOR, EVEN, TOLD)
    with pytest.raises(ProtocolError, match="sum 4 is not in the block"):
        sites["a"].mask(4, VECTOR, EVEN, TOLD)


def test_a_vector_that_cannot_be_encoded_uses_nothing_up(sites: Sites) -> None:
    sites.joined(1)
    with pytest.raises(DivergenceError, match="the limit is 1000"):
        sites["a"].mask(0, np.array([1.0, np.nan]), EVEN, TOLD)
    with pytest.raises(ProtocolError, match="the weights sum to"):
        sites["a"].mask(0, VECTOR, {**EVEN, "a": 0.5}, TOLD)
    sites["a"].mask(0, VECTOR, EVEN, TOLD)


def test_secrets_that_have_served_are_gone_from_disk(sites: Sites) -> None:
    sites.joined(3)
    held = sites["a"]._vault.load()
    assert held is not None

    def there(parts: tuple[bytes, ...]) -> list[bool]:
        stored = sites.stored("a")
        return [part in stored or part.hex().encode() in stored for part in parts]

    received = {
        index: tuple(part for pair in table.values() for part in pair) for index, table in held.shares.items()
    }
    assert all(there(held.secrets[index] + received[index]) == [True] * 10 for index in range(3))
    (sites.folder / "a" / "secure" / "run-1" / "vault.json.tmp").write_bytes(
        sites.stored("a")
    )  # a killed writer
    sites["a"].mask(1, VECTOR, EVEN, TOLD)
    assert there(held.secrets[0] + held.secrets[1] + received[0]) == [False] * 12
    assert there(received[1] + received[2] + held.secrets[2]) == [True] * 18
    sites["a"].mask(2, VECTOR, EVEN, TOLD)
    assert there(received[1] + held.secrets[2]) == [False] * 10
    sites.set_up(sites.plan(3))
    assert there(received[2]) == [False] * 8


def ready(sites: Sites) -> Sites:
    sites.joined(3)
    for name in sites.names:
        sites[name].mask(1, VECTOR, EVEN, TOLD)
    return sites


def request(survivors: Any, index: Any = 1, **more: Any) -> dict[str, Any]:
    return {"opened": [], "index": index, "survivors": survivors, **more}


@pytest.mark.parametrize(
    ("survivors", "index", "message"),
    [
        (["a", "b", "c"], 0, "a masked sum 1 last, so it cannot help with sum 0"),
        (["a", "b", "c"], 2, "a masked sum 1 last, so it cannot help with sum 2"),
        (["a", "b", "c"], 3, "sum 3 is not in the block"),
        (["a", "b", "c"], "1", "is not in the block"),
        (["b", "c", "d"], 1, "a is not among the survivors"),
        (["a", "b"], 1, "2 survivors cannot open a sum, 3 are needed"),
        (["a"], 1, "1 survivor cannot open a sum"),
        (["a", "b", "c", "e"], 1, r"strange: \['e'\]"),
        (["a", "b", "c", "c"], 1, "each once"),
        ("abc", 1, "survivors must be a list of names"),
        (["a", "b", 3], 1, "survivors must be a list of names"),
        ({"a": 1, "b": 1, "c": 1}, 1, "survivors must be a list of names"),
    ],
)
def test_survivors_that_would_show_too_much_are_refused(
    sites: Sites, survivors: Any, index: Any, message: str
) -> None:
    ready(sites)
    with pytest.raises(ProtocolError, match=message):
        sites["a"].release(request(survivors, index, signatures=None))
    with pytest.raises(ProtocolError, match=message):
        sites["a"].sign(request(survivors, index))
    sites["a"].release(request(["a", "b", "c"], signatures=None))  # nothing was used up


def test_one_list_a_sum_and_the_same_answer_to_it(sites: Sites) -> None:
    ready(sites)
    first = sites["a"].release(request(["c", "a", "b"], signatures=None))
    assert set(first["self"]) == {"a", "b", "c"}
    assert set(first["pair"]) == {"d"}
    assert sites["a"].release(request(["a", "b", "c"], signatures=None)) == first
    for survivors in (["a", "b", "c", "d"], ["a", "b", "d"]):
        with pytest.raises(ProtocolError, match="a was told other survivors of sum 1 before"):
            sites["a"].release(request(survivors, signatures=None))
        with pytest.raises(ProtocolError, match="a was told other survivors of sum 1 before"):
            sites["a"].sign(request(survivors))


def test_what_was_signed_binds_what_is_released(sites: Sites) -> None:
    ready(sites)
    signature = sites["a"].sign(request(["a", "b", "c"]))
    assert sites["a"].sign(request(["c", "b", "a"])) == signature
    with pytest.raises(ProtocolError, match="a was told other survivors"):
        sites["a"].sign(request(["a", "b", "d"]))
    with pytest.raises(ProtocolError, match="a was told other survivors"):
        sites["a"].release(request(["a", "b", "c", "d"], signatures=None))
    sites["a"].release(request(["a", "b", "c"], signatures=None))


def test_survivors_whose_weight_is_one_members_are_refused(sites: Sites) -> None:
    sites.joined(1)
    for name in sites.names:
        sites[name].mask(0, VECTOR, {"a": 0.5, "b": 0.0, "c": 0.0, "d": 0.5}, TOLD)
    with pytest.raises(ProtocolError, match=r"a has 1\.000 of the weight of 3 members"):
        sites["a"].release(request(["a", "b", "c"], 0, signatures=None))


def test_nothing_is_released_before_the_sum_is_masked(sites: Sites) -> None:
    sites.joined(2)
    with pytest.raises(ProtocolError, match="a masked sum -1 last"):
        sites["a"].release(request(["a", "b", "c"], 0, signatures=None))
    with pytest.raises(ProtocolError, match="a request to release has index, opened, signatures, survivors"):
        sites["a"].release(request(["a", "b", "c"], 0))


def test_with_a_roster_shares_need_enough_signatures(sites_of: Callable[..., Sites]) -> None:
    sites = ready(sites_of("a", "b", "c", "d", roster=True))
    survivors = list(sites.names)
    signatures = {name: sites[name].sign(request(survivors)) for name in "abc"}
    forged = {**signatures, "c": signatures["b"]}
    for wrong in (None, {}, [], {"a": signatures["a"], "b": signatures["b"]}, forged, {**signatures, "c": 3}):
        with pytest.raises(
            ProtocolError, match=r"only with signatures|2 survivors signed|0 survivors signed"
        ):
            sites["d"].release(request(survivors, signatures=wrong))
    released = sites["d"].release(request(survivors, signatures=signatures))
    assert set(released["self"]) == set(survivors)
    with pytest.raises(ProtocolError, match="d was told other survivors"):
        sites["d"].release(request(["a", "c", "d"], signatures=signatures))


def test_two_members_open_only_together(sites_of: Callable[..., Sites]) -> None:
    sites = sites_of("a", "b", roster=False)
    sites.joined(1)
    for name in sites.names:
        sites[name].mask(0, VECTOR, {"a": 0.8, "b": 0.2}, TOLD)
    with pytest.raises(ProtocolError, match="1 survivor cannot open a sum"):
        sites["a"].release(request(["a"], 0, signatures=None))
    assert set(sites["a"].release(request(["a", "b"], 0, signatures=None))["self"]) == {"a", "b"}


def test_sites_that_were_asked_for_other_things_sign_other_statements(sites_of: Callable[..., Sites]) -> None:
    sites = sites_of("a", "b", "c", "d", roster=True)
    sites.joined(1)
    for name in sites.names:
        sites[name].mask(0, VECTOR, EVEN, b"one" if name in "ab" else b"another", "round 1, train")
    survivors = list(sites.names)
    signatures = {name: sites[name].sign(request(survivors, 0)) for name in sites.names}
    with pytest.raises(
        ProtocolError,
        match="2 survivors signed what this site was told, 3 are needed: a, b signed something else",
    ):
        sites["d"].release(request(survivors, 0, signatures=signatures))
