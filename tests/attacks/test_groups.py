"""What a hostile member can do to sums of groups, and what a server reads from them.

Each attack is tried as it is repelled, and as a control with the defence taken out, where it succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedtag.client.secure import member
from fedtag.client.secure.member import Member
from fedtag.common.errors import ConfigError, ProtocolError
from fedtag.common.secure.block import Block
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.groups import Groups, drawn_groups
from fedtag.common.secure.identity import Identity, PublicIdentity
from fedtag.common.wire.records import Content, Instruction, Letter
from fedtag.server.strategies.secure import open_groups
from tests.attacks.test_claims import CLIENTS, FAIR, LIAR, MASKED, ROUNDS, lying, reported
from tests.tiny import Tiny, Tried

FIXED = FixedPoint(40, 1000.0)
UPDATE = 4
"""Coordinates of an update; behind them stands one that is summed over all."""
UPLOAD = "masked/vector"


@pytest.fixture(scope="module")
def honest(tiny: Tiny) -> Tried:
    return tiny(MASKED, CLIENTS, rosters=True)


def turned(told: Instruction, content: Content) -> Content:
    """The liar adds −2 times the model to its masked vector: the mean becomes about −1 times the old model."""
    if UPLOAD not in content.tensors:
        return content
    fixed = FixedPoint(40, 16384.0)
    model, names = told.content.section("model"), sorted(told.content.values["sum"]["layout"]["update"])
    added = fixed.encode(np.concatenate([-2.0 * model[name].double().flatten() for name in names]))
    upload = content.tensors[UPLOAD].numpy().view(np.uint64).copy()
    upload[: len(added)] += added
    return replace(content, tensors={**content.tensors, UPLOAD: torch.from_numpy(upload.view(np.int64))})


@pytest.mark.parametrize("rule", ["default", "group-trimmed-mean", "mean"])
def test_one_member_of_ten_does_not_turn_the_model(tiny: Tiny, honest: Tried, rule: str) -> None:
    """By default under masks from nine clients on; of the plain masked mean the report says what the control shows."""
    run = tiny({**MASKED, "aggregation.rule": rule}, CLIENTS, rosters=True, answer=lying(turned))
    loss = reported(honest) - reported(run)
    assert loss > FAIR if rule == "mean" else loss < FAIR


def test_honest_groups_lose_nothing(tiny: Tiny, honest: Tried) -> None:
    assert honest.rounds.config.aggregation.rule == "group-median"
    assert reported(honest) > reported(tiny(ROUNDS, CLIENTS)) - 0.02
    assert len(honest.rounds.run_state.groups) == 3
    assert honest.rounds.run_state.opened == honest.rounds.run_state.groups


def test_the_run_goes_on_without_a_group_that_has_lost_members(tiny: Tiny) -> None:
    """What is left is named; a group of four that loses one cannot be opened again, since that would show it."""
    gone = {"site-3"}

    def online(exchange: int) -> Iterable[str]:
        return [f"site-{k}" for k in range(CLIENTS) if exchange < 9 or f"site-{k}" not in gone]

    run = tiny({**MASKED, "rounds": 4}, CLIENTS, online=online)
    assert run.summary is not None, run.error
    (group,) = (one for one in run.rounds.run_state.groups if "site-3" in one)
    assert f"left out {', '.join(group)}, groups in which too few" in run.notes
    assert "2 groups cannot outvote 1 hostile ones" in run.notes
    assert all(set(one) in map(set, run.rounds.run_state.groups) for one in run.rounds.run_state.opened)


def test_who_comes_after_the_draw_is_named_and_in_no_sum(tiny: Tiny) -> None:
    """Another draw would let a regression over rounds read single updates."""

    def online(exchange: int) -> Iterable[str]:
        return [f"site-{k}" for k in range(CLIENTS) if exchange > 6 or f"site-{k}" != LIAR]

    run = tiny({**MASKED, "rounds": 5, "privacy.block-rounds": 1}, CLIENTS, online=online)
    assert run.summary is not None, run.error
    assert all(LIAR not in group for group in (*run.rounds.run_state.groups, *run.rounds.run_state.opened))
    assert sum(f"{LIAR} came after the groups" in note for note in run.notes.texts) == 1
    rows = [row for row in run.lines("clients") if row["client"] == LIAR]
    assert rows
    assert not any(row["weight"] for row in rows)


def test_fewer_than_nine_are_refused_with_both_numbers(tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match="needs at least 9 clients a round, there are 8"):
        tiny({**MASKED, "aggregation.rule": "group-median"}, 8)
    with pytest.raises(ConfigError, match="needs at least 15 clients a round, there are 10"):
        tiny({**MASKED, "aggregation.rule": "group-median", "aggregation.hostile": 2}, CLIENTS)


@dataclass
class Federation:
    """Twelve members on disk and a server that may ask for any groups."""

    folder: Path
    names: tuple[str, ...] = tuple(f"site-{k:02d}" for k in range(12))
    identities: dict[str, Identity] = field(default_factory=dict)

    def member(self, name: str) -> Member:
        roster = {one: self.identity(one).public for one in self.names}
        return Member(name, "run-1", self.folder / name / "secure", self.identity(name), roster, FIXED)

    def identity(self, name: str) -> Identity:
        if name not in self.identities:
            self.identities[name] = Identity.at(self.folder / name / "keys")
        return self.identities[name]

    def joined(self, sums: int) -> Block:
        asked = {name: PublicIdentity.from_json(self.member(name).keys(), name) for name in self.names}
        plan = Block.planned("run-1", sums, asked, {name: self.member(name).draw() for name in self.names})
        letters: list[Letter] = []
        members = {}
        for name in self.names:
            published, own = self.member(name).set_up(plan.as_json())
            members[name] = plan.accepted(name, published)
            letters += own
        block = plan.completed(members)
        for name in self.names:
            self.member(name).join(block.as_json(), [one for one in letters if one.recipient == name])
        return block

    def sums(
        self,
        block: Block,
        index: int,
        vectors: Mapping[str, np.ndarray],
        groups: Groups,
        opened: Groups | None = None,
    ) -> dict[tuple[str, ...], np.ndarray]:
        """The sums that a server opens which asks for these groups, over all members."""
        told, weights, opened = bytes(32), dict.fromkeys(self.names, 1 / len(self.names)), opened or groups
        uploads = {
            name: self.member(name).mask(
                index, vectors[name], weights, told, f"round {index}", 0.5, groups, UPDATE
            )
            for name in self.names
        }
        listed: dict[str, Any] = {
            "index": index,
            "survivors": list(self.names),
            "opened": [list(group) for group in opened],
        }
        signatures = {name: self.member(name).sign(listed) for name in self.names}
        releases = {
            name: self.member(name).release({**listed, "signatures": signatures}) for name in self.names
        }
        found, tail = open_groups(block, index, uploads, releases, FIXED, told, opened, groups, UPDATE)
        summed = {name for group in opened for name in group}
        assert tail.tolist() == pytest.approx([sum(vectors[name][UPDATE] for name in summed)], abs=1e-6)
        return dict(zip(opened, found, strict=True))


def drawn(block: Block) -> Groups:
    return drawn_groups({name: keys.draw for name, keys in block.members.items()})


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def redrawn(names: tuple[str, ...], generator: np.random.Generator) -> Groups:
    order = generator.permutation(list(names)).tolist()
    return tuple(tuple(sorted(order[place : place + 3])) for place in range(0, 12, 3))


@pytest.mark.parametrize("stay", [True, False], ids=["repelled", "control"])
def test_a_regression_of_group_sums_over_rounds(
    federation: Federation, stay: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each client's mean update follows from sums over redrawn groups by least squares, and not if they stay."""
    generator, rounds = np.random.default_rng(5), 10
    block = federation.joined(rounds)
    means = {name: generator.normal(size=UPDATE) for name in federation.names}
    groups = drawn(block)
    if not stay:
        # Members that check no groups, neither when they mask nor when they release.
        monkeypatch.setattr(
            member, "own_group", lambda name, block, told, vault: next(g for g in told if name in g)
        )
        monkeypatch.setattr("fedtag.client.secure.grouping.shown_by", lambda sums: ())
    rows, seen = [], []
    for index in range(rounds):
        vectors = {
            name: np.append(mean + 0.3 * generator.normal(size=UPDATE), 1.0) for name, mean in means.items()
        }
        asked = groups if stay else redrawn(federation.names, generator)
        for group, total in federation.sums(block, index, vectors, asked).items():
            rows.append([float(name in group) for name in federation.names])
            seen.append(total)
    read = np.linalg.lstsq(np.array(rows), np.array(seen), rcond=None)[0]
    true = np.array([means[name] for name in federation.names])
    error = np.linalg.norm(read - true) / np.linalg.norm(true)
    assert error > 0.6 if stay else error < 0.3


def test_groups_that_the_server_chooses_are_refused(federation: Federation) -> None:
    """It would put a victim among two that help it; the groups are those that all members drew."""
    block = federation.joined(2)
    groups, generator = drawn(block), np.random.default_rng(0)
    vectors = {name: np.append(generator.normal(size=UPDATE), 1.0) for name in federation.names}
    chosen = redrawn(federation.names, generator)
    assert chosen != groups
    with pytest.raises(ProtocolError, match="than its members drew: groups stay"):
        federation.sums(block, 0, vectors, chosen)
    federation.sums(block, 0, vectors, groups)
    with pytest.raises(ProtocolError, match="other groups than the run has"):
        federation.sums(block, 1, vectors, chosen)


def test_a_part_of_a_group_is_not_opened(federation: Federation) -> None:
    block = federation.joined(1)
    groups, generator = drawn(block), np.random.default_rng(0)
    vectors = {name: np.append(generator.normal(size=UPDATE), 1.0) for name in federation.names}
    with pytest.raises(ProtocolError, match="masked for other groups than those to open"):
        federation.sums(block, 0, vectors, groups, (tuple(sorted([*groups[0][:2], groups[1][0]])),))


def test_a_draw_is_bound_before_others_are_known(federation: Federation) -> None:
    """Who waits for the others' parts of the seed cannot choose its own by them."""
    asked = {
        name: PublicIdentity.from_json(federation.member(name).keys(), name) for name in federation.names
    }
    draws = {name: federation.member(name).draw() for name in federation.names}
    plan = Block.planned("run-1", 1, asked, draws)
    last = federation.names[-1]
    published, _ = federation.member(last).set_up(plan.as_json())
    assert plan.accepted(last, published).draw.hex() == published["draw"]
    with pytest.raises(ProtocolError, match=f"the draw of {last} is not the one it committed to"):
        plan.accepted(last, {**published, "draw": "00" * 16})
    assert federation.member(last).draw() == draws[last]
    forged = Block.planned("run-1", 1, asked, {**draws, last: draws[federation.names[0]]})
    with pytest.raises(ProtocolError, match=f"another draw of {last} than its own"):
        federation.member(last).set_up(forged.as_json())


@pytest.mark.parametrize("remembers", [True, False], ids=["repelled", "control"])
def test_a_member_that_drops_out_of_a_group_of_four(
    federation: Federation, remembers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group's sum with it, less the one without it, would be its update."""
    federation.names = federation.names[:10]
    block = federation.joined(2)
    groups, generator = drawn(block), np.random.default_rng(0)
    vectors = {name: np.append(generator.normal(size=UPDATE), 1.0) for name in federation.names}
    whole = federation.sums(block, 0, vectors, groups)
    (four,) = (group for group in groups if len(group) == 4)
    if not remembers:
        monkeypatch.setattr("fedtag.client.secure.grouping.shown_by", lambda sums: ())
    left, told = [name for name in federation.names if name != four[0]], bytes(32)
    weights = dict.fromkeys(federation.names, 0.1)
    uploads = {
        name: federation.member(name).mask(1, vectors[name], weights, told, "round 1", 0.5, groups, UPDATE)
        for name in left
    }
    opened = tuple(tuple(name for name in group if name in left) for group in groups)
    listed = {"index": 1, "survivors": left, "opened": [list(group) for group in opened]}
    if remembers:
        with pytest.raises(ProtocolError, match=f"those before give away {four[0]}: leave the group"):
            federation.member(left[0]).sign(listed)
        return
    signatures = {name: federation.member(name).sign(listed) for name in left}
    releases = {name: federation.member(name).release({**listed, "signatures": signatures}) for name in left}
    sums, _ = open_groups(block, 1, uploads, releases, FIXED, told, opened, groups, UPDATE)
    without = dict(zip(opened, sums, strict=True))[four[1:]]
    assert np.allclose(whole[four] - without, vectors[four[0]][:UPDATE], atol=1e-6)
