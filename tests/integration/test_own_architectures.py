"""DA-DFGAS with architectures of clients' own under secure aggregation: what is summed, what stays, what is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

import fedtag.server.strategies.aggregation as aggregation
from fedtag.common.methods.da_dfgas.course import first_supernet
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import always_used, used_names

if TYPE_CHECKING:
    from fedtag.common.wire.records import Instruction, Reply
    from tests.tiny import Tiny, Tried

Settings = dict[str, object]
SETTINGS: Settings = {
    "method": "da_dfgas",
    "rounds": 4,
    "model.hidden": 4,
    "da_dfgas.search-share": 0.5,
    "da_dfgas.own": "always",
    "da_dfgas.architecture-rate": 0.5,
    "train.epochs": 3,
    "aggregation.statistics": "previous",
    "privacy.block-rounds": 10,
}
SECURE: Settings = {"privacy.secure-aggregation": True}
HIDDEN: Settings = {**SECURE, "privacy.hide-statistics": True}
UNIFORM: Settings = {"aggregation.weights": "uniform"}
CLIENTS = 5
UPLOAD = "masked/vector"
FEWEST = 3


def used_at(run: Tried) -> dict[str, frozenset[str]]:
    """What each client's network uses, from the site's own state folder."""
    found = {}
    for session in run.sessions:
        (path,) = session.site.state.rglob("architecture.json")
        cells = json.loads(path.read_text())["cells"]
        found[session.site.name] = used_names(Architecture.from_json({"cells": cells}))
    return found


def models(run: Tried) -> dict[int, Parameters]:
    """The global model that the first round of each number began with, as clients got it."""
    found: dict[int, Parameters] = {}
    for one in run.crossed:
        if one.told.phase in ("train", "close"):
            found.setdefault(one.told.round, one.told.content.section("model"))
    return found


def mean_of_three(
    updates: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]
) -> dict[str, Tensor]:
    """The oracle: number by number, over the users of a tensor, if there are three of them."""
    mean: dict[str, Tensor] = {}
    for name in {name for update in updates.values() for name in update}:
        users = [client for client in weights if name in updates[client]]
        if len(users) < FEWEST:
            continue
        rows = [updates[client][name].flatten().tolist() for client in users]
        total = sum(weights[client] for client in users)
        values = [
            sum(weights[client] * number for client, number in zip(users, column, strict=True)) / total
            for column in zip(*rows, strict=True)
        ]
        mean[name] = torch.tensor(values).view(updates[users[0]][name].shape)
    return mean


@pytest.fixture(scope="module")
def once(tiny: Tiny) -> Callable[..., Tried]:
    """Runs with nobody in between; equal ones are done once."""
    done: dict[str, Tried] = {}

    def run(settings: Settings) -> Tried:
        key = json.dumps(settings, sort_keys=True)
        if key not in done:
            done[key] = tiny({**SETTINGS, **settings}, clients=CLIENTS)
            assert done[key].error is None, done[key].error
        return done[key]

    return run


@pytest.mark.parametrize(
    "settings",
    [{}, {"aggregation.weights": "samples", "aggregation.normalise": "none"}, UNIFORM],
    ids=["distribution-aware with FedNova", "samples", "uniform"],
)
def test_a_masked_sum_is_the_plain_one_of_what_three_use(
    once: Callable[..., Tried], tiny: Tiny, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    # A second round of search would make much of the rounding in the first: Adam takes whole steps by any gradient.
    settings = {**settings, "da_dfgas.search-share": 0.25}
    secure = once({**settings, **SECURE})
    monkeypatch.setattr(aggregation, "weighted_mean", mean_of_three)
    plain = tiny({**SETTINGS, **settings}, clients=CLIENTS)
    assert plain.state.keys() == secure.state.keys()
    for name, value in plain.state.items():
        torch.testing.assert_close(secure.state[name], value, rtol=0, atol=1e-6, msg=name)
    counts = set((secure.rounds.run_state.users or {}).values())
    assert counts & {1, 2}
    assert counts & {3, 4}
    for one, other in zip(plain.lines("metrics"), secure.lines("metrics"), strict=True):
        for name in ("val_accuracy", "test_accuracy", "test_macro_f1"):
            assert one[name] == other[name]
        assert one["train_loss"] == pytest.approx(other["train_loss"], abs=1e-5)


def test_hidden_statistics_change_no_model(once: Callable[..., Tried]) -> None:
    """Which client lags behind cannot be known then, so that nobody is to work longer."""
    settings = {**UNIFORM, "da_dfgas.adaptive": False}
    open_run, hidden = once({**settings, **SECURE}), once({**settings, **HIDDEN})
    for name, value in open_run.state.items():
        torch.testing.assert_close(hidden.state[name], value, rtol=0, atol=1e-6, msg=name)
    for one, other in zip(open_run.lines("metrics"), hidden.lines("metrics"), strict=True):
        assert one["val_accuracy"] == pytest.approx(other["val_accuracy"], abs=1e-7)


def test_users_are_counted_once_and_what_few_use_stays(once: Callable[..., Tried]) -> None:
    run = once(SECURE)
    train = ["train", "unmask"]
    assert run.phases == ["keys", "shares", *train * 2, "use", "unmask", *train * 2, "close"]
    used = used_at(run)
    counts = {
        name: sum(name in names for names in used.values())
        for name in models(run)[3]
        if not is_architecture(name) and not always_used(name)
    }
    assert run.rounds.run_state.users == counts
    kinds = {"nobody": 0, "few": 0, "enough": 0}
    after = models(run)
    start = parameters_of(first_supernet(run.rounds.config, 8, 3))
    for name, count in counts.items():
        kinds["nobody" if not count else "few" if count < FEWEST else "enough"] += 1
        for number in (4, 5):
            moved = not torch.equal(after[number][name], start[name])
            assert moved == (count >= FEWEST), (name, number)
    assert min(kinds.values()) > 0
    assert "of 80 tensors that not all clients use have fewer than 3 users" in run.notes


def test_without_masks_two_users_move_a_tensor(once: Callable[..., Tried]) -> None:
    """The rule belongs to secure aggregation; in clear every user counts."""
    run = once({})
    start = parameters_of(first_supernet(run.rounds.config, 8, 3))
    used = run.rounds.run_state.state
    assert used is not None
    told = used.values["architectures"]
    names = {
        client: used_names(Architecture.from_json({"cells": one["cells"]})) for client, one in told.items()
    }
    few = [
        name
        for name in start
        if not is_architecture(name) and 0 < sum(name in own for own in names.values()) < FEWEST
    ]
    assert few
    assert all(not torch.equal(run.state[f"model/{name}"], start[name]) for name in few)


@pytest.mark.parametrize("settings", [SECURE, {**UNIFORM, **HIDDEN}], ids=["secure", "hidden"])
def test_no_message_says_who_uses_what(once: Callable[..., Tried], settings: Settings) -> None:
    run = once(settings)
    used = used_at(run)
    assert len({frozenset(names) for names in used.values()}) > 1
    for exchange in run.grid.exchanges:
        replies = [one.reply for one in exchange if one.reply is not None]
        uploads = {
            reply.content.tensors[UPLOAD].shape for reply in replies if UPLOAD in reply.content.tensors
        }
        assert len(uploads) <= 1
        for reply in replies:
            clear = {name for name in reply.content.tensors if name != UPLOAD}
            assert all(name.startswith("scores/") for name in clear)
            assert reply.content.values.keys() <= {
                "keys", "trains", "introduction", "seconds", "sizes", "shares", "unmask", "training", "statistics"
            }  # fmt: skip
    # Neither the name of a tensor nor that of an operation is in anything that a client sent.
    words = {name.encode() for names in used.values() for name in names if not always_used(name)}
    sent = [data for one in run.crossed for parcel in one.parcels[1:] for data in parcel.objects.values()]
    told = [data for one in run.crossed for data in one.parcels[0].objects.values()]
    assert not any(word in data for word in (*words, b"cells") for data in sent)
    assert any(word in data for word in words for data in told)  # the search finds what is there


def test_architectures_stay_at_the_sites(once: Callable[..., Tried]) -> None:
    run = once(SECURE)
    assert run.rounds.run_state.state is not None
    assert run.rounds.run_state.state.values["architectures"] == {}
    assert not (run.place / "run" / "architectures").exists()
    assert {row["parameters"] for row in run.lines("clients")} == {None}
    assert run.summary is not None
    assert run.summary.parameters is None
    assert not any(row["kind"] == "architecture" for row in run.disclosures)
    for session in run.sessions:
        (drawn,) = session.site.state.rglob("architecture.svg")
        assert drawn.read_text().startswith("<svg")
        (path,) = session.site.state.rglob("architecture.json")
        assert json.loads(path.read_text())["parameters"] > 0


def test_what_too_few_survivors_use_stays_in_that_round(once: Callable[..., Tried], tiny: Tiny) -> None:
    """Of a tensor with three users one is missing in round 4."""
    whole = once(SECURE)
    used, counts = used_at(whole), whole.rounds.run_state.users
    assert counts is not None
    name = next(name for name, count in counts.items() if count == FEWEST)
    lost = next(client for client, names in used.items() if name in names)

    def answer(client: str, told: Instruction, reply: Reply) -> Reply | None:
        return None if (client, told.round, told.phase) == (lost, 4, "train") else reply

    run = tiny({**SETTINGS, **SECURE}, clients=CLIENTS, patient=False, answer=answer)
    assert run.error is None
    assert "use" in run.phases
    after = models(run)
    start = models(whole)[3]
    assert torch.equal(after[3][name], start[name])
    assert not torch.equal(after[4][name], after[3][name])
    assert torch.equal(after[5][name], after[4][name])
    shared = next(other for other, count in counts.items() if count == CLIENTS)
    assert not torch.equal(after[5][shared], after[4][shared])


class KilledError(Exception):
    """The server's process is gone."""


@pytest.mark.parametrize(("killed", "counts"), [(3, ["use", "unmask", "train", "unmask"]), (4, [])])
def test_a_run_that_goes_on_counts_again_only_where_no_round_has_used_it(
    once: Callable[..., Tried], tiny: Tiny, killed: int, counts: list[str]
) -> None:
    place = tiny.new_place()

    def kill(client: str, told: Instruction) -> Instruction:
        if (told.round, told.phase) == (killed, "train"):
            raise KilledError
        return told

    with pytest.raises(KilledError):
        tiny({**SETTINGS, **SECURE}, clients=CLIENTS, place=place, tell=kill)
    again = tiny({**SETTINGS, **SECURE}, clients=CLIENTS, place=place)
    assert again.error is None
    assert again.phases == ["keys", "shares", *counts, "train", "unmask", "close"]
    whole = once(SECURE)
    assert again.rounds.run_state.users == whole.rounds.run_state.users
    for name, value in whole.state.items():
        assert torch.equal(again.state[name], value), name


def test_rosters_change_no_model(once: Callable[..., Tried], tiny: Tiny) -> None:
    """Members sign the list of survivors of the count, too."""
    run = tiny({**SETTINGS, **SECURE, "privacy.roster": True}, clients=CLIENTS, rosters=True)
    assert run.error is None
    place = run.phases.index("use")
    assert run.phases[place : place + 3] == ["use", "sign", "unmask"]
    for name, value in once(SECURE).state.items():
        assert torch.equal(run.state[name], value), name


def test_a_count_that_cannot_be_true_moves_only_what_all_use(tiny: Tiny) -> None:
    """A client counts for a hundred; next round they are asked again."""

    def answer(client: str, told: Instruction, reply: Reply) -> Reply:
        if told.phase != "use" or told.round != 3 or client != "site-1":
            return reply
        upload = reply.content.tensors[UPLOAD].clone()
        upload[2:] += 100 * 2**40
        return replace(reply, content=replace(reply.content, tensors={UPLOAD: upload}))

    run = tiny({**SETTINGS, **SECURE}, clients=CLIENTS, answer=answer)
    assert run.error is None
    assert "round 3 moves only what all clients use" in run.notes
    assert run.phases.count("use") == 2
    after = models(run)
    assert run.rounds.run_state.users is not None
    for name in run.rounds.run_state.users:
        assert torch.equal(after[4][name], after[3][name])
    assert not torch.equal(after[4]["first.weight"], after[3]["first.weight"])
