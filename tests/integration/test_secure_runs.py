"""Runs under secure aggregation from end to end: what they compute, what the server learns, and who may vanish."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fedtag.client.run.guard as contribution
from fedtag.common.errors import DataError
from fedtag.common.models.parameters import fingerprint
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.names import JOIN
from fedtag.common.wire.records import Instruction, Letter, Reply
from fedtag.common.wording.scoring import METRICS, column

if TYPE_CHECKING:
    from tests.tiny import Tiny, Tried

Settings = dict[str, object]
SECURE: Settings = {"privacy.secure-aggregation": True}
HIDDEN: Settings = {**SECURE, "privacy.hide-statistics": True, "aggregation.weights": "uniform"}
AWARE: Settings = {
    "aggregation.weights": "distribution-aware",
    "aggregation.statistics": "previous",
    "aggregation.normalise": "fednova",
    "train.prox-mu": 0.5,
}
SCORES = (
    *(f"{subset}_{column(metric)}" for subset in ("val", "test") for metric in METRICS),
    "test_ece",
)
UPLOAD = "masked/vector"
SINGLE_VALUES = {
    *("nodes", "train_nodes", "val_nodes", "test_nodes", "val_accuracy"),
    *(f"test_{column(metric)}" for metric in METRICS),
}


def assert_same_model(one: Tried, other: Tried, tolerance: float = 1e-6) -> None:
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        assert torch.allclose(value, other.state[name], rtol=0, atol=tolerance), name


def assert_finished(run: Tried, rounds: int = 3) -> None:
    assert run.error is None, run.error
    assert run.summary is not None
    assert run.summary.rounds == rounds
    assert not any(row["empty"] for row in run.lines("metrics"))


def of_round(run: Tried, name: str, number: int) -> dict[str, dict[str, Any]]:
    return {row["client"]: row for row in run.lines(name) if row["round"] == number}


def changed(reply: Reply, tensors: Mapping[str, Tensor] | None = None, **values: object) -> Reply:
    content = reply.content
    return replace(
        reply,
        content=replace(
            content, tensors={**content.tensors, **(tensors or {})}, values={**content.values, **values}
        ),
    )


@pytest.fixture(scope="module")
def once(tiny: Tiny) -> Callable[..., Tried]:
    """Runs with nobody in between; equal ones are done once."""
    done: dict[str, Tried] = {}

    def run(settings: Settings, **more: Any) -> Tried:
        key = json.dumps([settings, more], sort_keys=True)
        if key not in done:
            done[key] = tiny(settings, **more)
        return done[key]

    return run


@pytest.mark.parametrize("method", ["fedavg", "dance"])
@pytest.mark.parametrize("settings", [{}, AWARE], ids=["samples", "distribution-aware"])
def test_a_masked_sum_is_the_plain_one(once: Callable[..., Tried], method: str, settings: Settings) -> None:
    plain = once({"method": method, **settings})
    secure = once({"method": method, **settings, **SECURE})
    assert_finished(secure)
    assert_same_model(plain, secure)
    for one, other in zip(plain.lines("metrics"), secure.lines("metrics"), strict=True):
        assert {name: one[name] for name in SCORES} == pytest.approx({name: other[name] for name in SCORES})
        assert one["train_loss"] == pytest.approx(other["train_loss"], abs=1e-5)
    for number in (1, 2, 3):
        rows, others = of_round(plain, "clients", number), of_round(secure, "clients", number)
        for client, row in rows.items():
            assert others[client]["weight"] == pytest.approx(row["weight"], abs=1e-6)
            assert others[client]["steps"] == row["steps"]
            assert others[client]["normaliser"] == pytest.approx(row["normaliser"])
            assert others[client]["statistics"].keys() == row["statistics"].keys()
    assert plain.summary is not None
    assert secure.summary is not None
    assert secure.summary.weights_lag == plain.summary.weights_lag == (1 if settings else None)


def test_weights_of_the_round_before_are_not_those_of_now(once: Callable[..., Tried]) -> None:
    lagging = once({"method": "fedavg", **AWARE})
    current = once({"method": "fedavg", **AWARE, "aggregation.statistics": "current"})
    weights = [
        {name: row["weight"] for name, row in of_round(run, "clients", 1).items()}
        for run in (lagging, current)
    ]
    nodes = {name: row["train_nodes"] for name, row in of_round(lagging, "clients", 1).items()}
    assert weights[0] == pytest.approx({name: count / sum(nodes.values()) for name, count in nodes.items()})
    assert weights[1] != pytest.approx(weights[0], abs=1e-4)
    assert current.summary is not None
    assert current.summary.weights_lag == 0


@pytest.mark.parametrize("method", ["fedavg", "dance"])
def test_hidden_statistics_pool_to_the_same_scores(once: Callable[..., Tried], method: str) -> None:
    plain = once({"method": method, "aggregation.weights": "uniform"})
    hidden = once({"method": method, **HIDDEN})
    assert_finished(hidden)
    assert_same_model(plain, hidden)
    for one, other in zip(plain.lines("metrics"), hidden.lines("metrics"), strict=True):
        assert {name: one[name] for name in SCORES} == {
            name: pytest.approx(other[name], abs=1e-7) for name in SCORES
        }
        for name in ("train_loss", "local_val_accuracy", "local_test_accuracy"):
            assert one[name] == pytest.approx(other[name], abs=1e-5)
        assert (other["clients_ok"], other["clients_failed"]) == (3, 0)
    assert plain.summary is not None
    assert hidden.summary is not None
    assert hidden.summary.best_round == plain.summary.best_round
    assert hidden.summary.test_classes == plain.summary.test_classes


@pytest.mark.parametrize("method", ["fedavg", "dance"])
def test_nothing_of_a_single_client_is_told_when_statistics_are_hidden(
    once: Callable[..., Tried], method: str
) -> None:
    run = once({"method": method, **HIDDEN})
    allowed = {
        "keys": {"keys", "trains", "introduction", "seconds"},
        "shares": {"shares", "seconds"},
        "train": {"seconds"},
        "close": {"seconds"},
        "unmask": {"unmask", "seconds"},
    }
    assert set(run.phases) == allowed.keys()
    for reply in run.replies():
        assert reply.content.values.keys() <= allowed[reply.phase]
        assert set(reply.content.tensors) == ({UPLOAD} if reply.phase in ("train", "close") else set())
    rows = run.lines("clients")
    assert len(rows) == 9
    for row in rows:
        assert all(row[name] is None for name in SINGLE_VALUES | {"local_test_accuracy", "steps"})
        assert row["statistics"] == row["scores"] == {}
        assert row["weight"] == pytest.approx(1 / 3)
    kinds = {row["kind"] for row in run.disclosures}
    assert not kinds & {"update", "scores", "sizes", "training", "statistics", "condensation", "tokens"}


def test_the_sums_that_are_opened_are_those_of_the_sites(tiny: Tiny, once: Callable[..., Tried]) -> None:
    """Counts of nodes, as the sites' own folders have them, reach no reply but the sum of all."""
    run = once({"method": "fedavg", **HIDDEN})
    sizes = [session.data.sizes for session in run.sessions]
    total = {name: sum(one[name] for one in sizes) for name in sizes[0]}
    (row,) = (row for row in run.lines("metrics") if row["round"] == 3)
    for subset in ("val", "test"):
        right = row[f"{subset}_accuracy"] * total[f"{subset}_nodes"]
        assert right == pytest.approx(round(right))


def test_exchanges_of_a_round(once: Callable[..., Tried]) -> None:
    secure, hidden = once({"method": "fedavg", **SECURE}), once({"method": "fedavg", **HIDDEN})
    assert secure.phases == ["keys", "shares", *["train", "unmask"] * 3, "close"]
    assert hidden.phases == ["keys", "shares", *["train", "unmask"] * 3, "close", "unmask"]
    assert all(len(exchange) == 3 for exchange in secure.grid.exchanges)
    # Σ w Δ/a, Σ w a and Σ w, and nothing else where nothing is hidden.
    size = sum(value.numel() for value in secure.state.values())
    assert {reply.content.tensors[UPLOAD].numel() for reply in secure.replies("train")} == {size + 2}
    assert {reply.content.tensors[UPLOAD].numel() for reply in hidden.replies("train")} != {size + 2}


def test_a_block_serves_so_many_sums(tiny: Tiny) -> None:
    run = tiny({**SECURE, "privacy.block-rounds": 2, "rounds": 5})
    assert run.phases == [
        "keys",
        *(["shares", *["train", "unmask"] * 2] * 2),
        "shares",
        "train",
        "unmask",
        "close",
    ]
    asked = [one.told.content.values for one in run.crossed if one.told.phase == "train"]
    joins = [JOIN in values for values in asked]
    assert joins == [*([True] * 3 + [False] * 3) * 2, *[True] * 3]
    assert [values["sum"]["index"] for values in asked[::3]] == [0, 1, 0, 1, 0]
    blocks = {values[JOIN]["block"] for values in asked if JOIN in values}
    assert len(blocks) == 3


def test_what_is_disclosed_is_said(once: Callable[..., Tried]) -> None:
    run = once({"method": "fedavg", **SECURE})
    rows = run.disclosures
    uploads = [row for row in rows if row["kind"] == "masked"]
    assert len(uploads) == 9
    assert {(row["protected"], row["to"]) for row in uploads} == {("masked", "server")}
    assert all("under masks" in row["reveals"] for row in uploads)
    assert not any(row["kind"] == "update" for row in rows)
    letters = [row for row in rows if row["protected"] == "encrypted"]
    assert {(row["from"], row["to"]) for row in letters} == {
        (f"site-{one}", f"site-{other}") for one in range(3) for other in range(3) if one != other
    }
    said = {row["kind"]: row["reveals"] for row in rows}
    assert all(
        said[kind] for kind in ("keys", "shares", "sum", "unmask", "masked", "scores", "sizes", "training")
    )
    # Scores stay in clear without hide-statistics, and it is said of each client and round.
    told = {(row["round"], row["from"]) for row in rows if row["kind"] == "scores"}
    assert told >= {(number, f"site-{k}") for number in (2, 3, 4) for k in range(3)}


@pytest.mark.parametrize("settings", [SECURE, HIDDEN], ids=["secure", "hidden"])
def test_no_byte_of_an_update_crosses(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """Updates are taken from the sites, right before they are weighed, and searched for in all that was sent."""
    updates: list[Tensor] = []
    weigh = contribution.weighed

    def watched(update: Mapping[str, Tensor], *rest: Any) -> Any:
        updates.extend(update.values())
        return weigh(update, *rest)

    monkeypatch.setattr(contribution, "weighed", watched)
    run = tiny({**settings, "rounds": 2})
    assert len(updates) == 2 * 3 * 4
    secret: set[bytes] = set()
    for update in updates:
        value = update.flatten()
        factors = [1.0, 1 / 3, *(row["weight"] for row in run.lines("clients") if row["weight"])]
        for factor in factors:
            encoded = FixedPoint(40, 16384.0).encode((value.double() * factor).numpy())
            for array in (value * factor, value.double() * factor):
                secret |= pieces(array.numpy().tobytes())
            secret |= pieces(encoded.tobytes())
    sent = [b"\0".join(parcel.objects.values()) for one in run.crossed for parcel in one.parcels]
    assert len(secret) > 500
    assert not any(piece in data for data in sent for piece in secret)
    model = [
        value.flatten().numpy().tobytes()[:16] for name, value in run.state.items() if value.numel() >= 4
    ]
    assert all(any(piece in data for data in sent) for piece in model)  # the search finds what is there


def pieces(data: bytes) -> set[bytes]:
    """Runs of 16 bytes with at least one that is not zero in each half."""
    runs = {data[start : start + 16] for start in range(0, len(data) - 15, 16)}
    return {run for run in runs if any(run[:8]) and any(run[8:])}


def uploads_of(runs: Iterable[Tried]) -> list[tuple[str, str, int, bytes]]:
    """Client, block, index and bytes of each upload that the server got."""
    found = []
    for run in runs:
        block = ""
        for one in run.crossed:
            request = one.told.content.values.get("sum")
            if request is None:
                continue
            block = one.told.content.values.get(JOIN, {}).get("block", block)
            if one.reply is not None:
                data = one.reply.content.tensors[UPLOAD].numpy().tobytes()
                found.append((one.client, block, request["index"], data))
    return found


class KilledError(Exception):
    """The server's process is gone."""


@pytest.mark.parametrize("phase", ["train", "unmask"])
def test_a_killed_run_goes_on_and_no_mask_serves_twice(
    tiny: Tiny, once: Callable[..., Tried], phase: str
) -> None:
    whole = once({"method": "fedavg", **SECURE})
    place = tiny.new_place()
    seen: list[tuple[str, Instruction]] = []

    def kill(client: str, told: Instruction) -> Instruction:
        seen.append((client, told))
        if told.round == 2 and told.phase == phase and client == "site-2":
            raise KilledError
        return told

    first: list[tuple[str, str, int]] = []

    def note(client: str, told: Instruction, reply: Reply) -> Reply:
        if UPLOAD in reply.content.tensors:
            first.append((client, reply.content.tensors[UPLOAD].numpy().tobytes().hex(), told.round))
        return reply

    with pytest.raises(KilledError):
        tiny(SECURE, place=place, tell=kill, answer=note)
    assert Counter(number for _, _, number in first) == {1: 3, 2: 3 if phase == "unmask" else 2}
    again = tiny(SECURE, place=place, answer=note)
    assert_finished(again)
    assert again.phases == ["keys", "shares", *["train", "unmask"] * 2, "close"]
    assert [row["round"] for row in again.lines("metrics")] == [1, 2, 3]
    assert {name: fingerprint({name: value}) for name, value in again.state.items()} == {
        name: fingerprint({name: value}) for name, value in whole.state.items()
    }
    # The same update of round 2 was uploaded twice, under masks that have nothing in common.
    assert len({data for _, data, _ in first}) == len(first)
    blocks = {request["block"] for _, told in seen if (request := told.content.values.get("shares"))}
    blocks |= {
        request["block"] for one in again.crossed if (request := one.told.content.values.get("shares"))
    }
    assert len(blocks) == 2
    for client in ("site-0", "site-1", "site-2"):
        two = [
            np.frombuffer(bytes.fromhex(data), np.uint64)
            for name, data, number in first
            if (name, number) == (client, 2)
        ]
        if len(two) == 2:
            # Under the same masks the difference of equal updates would be 0.
            assert np.count_nonzero(two[0] - two[1]) == two[0].size


def test_no_two_uploads_of_a_client_are_for_the_same_sum(tiny: Tiny) -> None:
    lost = {("site-1", 2)}

    def lose(client: str, told: Instruction, reply: Reply) -> Reply | None:
        if told.phase == "train" and (client, told.round) in lost:
            lost.clear()
            return None
        return reply

    run = tiny({**SECURE, "rounds": 4}, patient=False, answer=lose)
    assert_finished(run, 4)
    uploads = uploads_of([run])
    assert len(uploads) == 3 * 5 - 1
    assert len({upload[:3] for upload in uploads}) == len(uploads)
    assert len({upload[3] for upload in uploads}) == len(uploads)


@pytest.mark.parametrize("phase", ["train", "unmask"])
@pytest.mark.parametrize("how", ["silent", "raising"])
def test_a_sum_is_opened_without_one_who_vanishes(tiny: Tiny, phase: str, how: str) -> None:
    def vanish(client: str, told: Instruction, reply: Reply) -> Reply | Exception | None:
        if client == "site-3" and told.round == 2 and told.phase == phase:
            return None if how == "silent" else RuntimeError()
        return reply

    run = tiny(SECURE, clients=4, patient=how != "silent", answer=vanish)
    assert_finished(run)
    assert run.phases == ["keys", "shares", *["train", "unmask"] * 3, "close"]
    assert "is left out" in run.notes
    row = run.lines("metrics")[1]
    counted = (3, 1) if phase == "train" else (4, 0)
    assert (row["clients_ok"], row["clients_failed"]) == counted
    weights = {name: row["weight"] for name, row in of_round(run, "clients", 2).items()}
    assert sum(weight for weight in weights.values() if weight) == pytest.approx(1)
    assert (weights["site-3"] is None) == (phase == "train")
    # The plain run in which the same client is missing from the same sum.
    plain = tiny({}, clients=4, patient=how != "silent", answer=vanish if phase == "train" else None)
    assert_same_model(plain, run)


def test_a_round_is_repeated_when_too_few_uploads_come(tiny: Tiny, once: Callable[..., Tried]) -> None:
    """Three members need all three; the second attempt has a block of its own."""
    lost = [("site-2", 2)]

    def lose(client: str, told: Instruction, reply: Reply) -> Reply | None:
        return None if told.phase == "train" and (client, told.round) in lost and lost.pop() else reply

    run = tiny(SECURE, patient=False, answer=lose)
    assert_finished(run)
    assert run.phases == [
        "keys",
        "shares",
        "train",
        "unmask",
        "train",
        "shares",
        *["train", "unmask"] * 2,
        "close",
    ]
    assert "round 2 is repeated with a new block" in run.notes
    assert_same_model(once({"method": "fedavg", **SECURE}), run, 0)


def test_an_answer_that_was_lost_is_asked_for_again_over_the_same_members(
    tiny: Tiny, once: Callable[..., Tried]
) -> None:
    lost = [("site-2", 2)]

    def lose(client: str, told: Instruction, reply: Reply) -> Reply | None:
        return None if told.phase == "unmask" and (client, told.round) in lost and lost.pop() else reply

    run = tiny(SECURE, patient=False, answer=lose)
    assert_finished(run)
    assert_same_model(once({"method": "fedavg", **SECURE}), run, 0)


def test_who_is_gone_for_good_is_done_without(tiny: Tiny) -> None:
    """Five members need four; with two gone the block is made anew among three."""
    names = [f"site-{k}" for k in range(5)]
    gone = {"train 2": 0}

    def there(exchange: int) -> list[str]:
        # keys, shares, then two exchanges a round: the second round begins with exchange 5
        return names if exchange < 5 else names[:3]

    run = tiny(SECURE, clients=5, online=there)
    assert gone
    assert_finished(run)
    assert run.phases == [
        "keys",
        "shares",
        "train",
        "unmask",
        "train",
        "shares",
        *["train", "unmask"] * 2,
        "close",
    ]
    assert [row["clients_ok"] for row in run.lines("metrics")] == [5, 3, 3]
    assert sum(row["weight"] for row in of_round(run, "clients", 3).values()) == pytest.approx(1)
    assert set(of_round(run, "clients", 3)) == set(names[:3])


def test_a_run_that_cannot_go_on_stops_and_can_be_resumed(tiny: Tiny, once: Callable[..., Tried]) -> None:
    def gone(client: str, told: Instruction, reply: Reply) -> Reply | Exception:
        return ValueError() if client == "site-1" and told.phase == "train" and told.round >= 2 else reply

    place = tiny.new_place()
    run = tiny(SECURE, place=place, answer=gone)
    assert run.summary is None
    text = str(run.error)
    assert "round 2 stopped, since its sum could not be opened" in text
    assert "2 clients answered, 3 are needed" in text
    assert "site-1: error 2: ValueError; the site's own log says more" in text
    assert f"resume {place / 'run'}" in text
    assert run.phases == ["keys", "shares", "train", "unmask", "train", "shares", "train"]
    again = tiny(SECURE, place=place)
    assert_finished(again)
    assert_same_model(once({"method": "fedavg", **SECURE}), again, 0)


def test_a_lonely_client_never_uploads(tiny: Tiny) -> None:
    run = tiny(
        SECURE, clients=2, online=lambda exchange: ["site-0", "site-1"] if exchange < 5 else ["site-0"]
    )
    assert run.summary is None
    assert "1 client can take part in a sum, 2 must" in str(run.error)
    assert [reply.round for reply in run.replies("train")] == [1, 1, 2]


def test_two_clients_are_warned(tiny: Tiny) -> None:
    run = tiny(SECURE, clients=2)
    assert_finished(run)
    assert_same_model(tiny({}, clients=2), run)
    assert [text for text in run.notes.texts if "subtract its own part" in text] == [
        "two clients: each can subtract its own part from a sum and so see the other's"
    ]


def test_who_comes_later_enters_at_the_next_block(tiny: Tiny) -> None:
    """A node that appears in round 2 says who it is, scores, and trains from the next block, in round 3, on."""
    names = [f"site-{k}" for k in range(4)]
    run = tiny(
        {**SECURE, "privacy.block-rounds": 2, "rounds": 4},
        clients=4,
        online=lambda exchange: names[:3] if exchange < 5 else names,
    )
    assert_finished(run, 4)
    assert run.phases == [
        "keys", "shares", "train", "unmask", "keys", "train", "unmask", "shares", *["train", "unmask"] * 2, "close",
    ]  # fmt: skip
    late = [(one.told.round, one.told.phase) for one in run.crossed if one.client == "site-3"]
    assert late == [
        (2, "keys"), (2, "score"), (3, "shares"), (3, "train"), (3, "unmask"), (4, "train"), (4, "unmask"),
        (5, "close"),
    ]  # fmt: skip
    weights = [of_round(run, "clients", number).get("site-3", {}).get("weight") for number in (1, 2, 3, 4)]
    assert weights[1] == 0
    assert weights[2] > 0
    assert weights[3] > 0
    assert sum(row["weight"] for row in of_round(run, "clients", 4).values()) == pytest.approx(1)


@pytest.mark.parametrize("settings", [SECURE, HIDDEN], ids=["secure", "hidden"])
def test_a_client_without_training_nodes(tiny: Tiny, settings: Settings) -> None:
    run = tiny(settings, clients=4, idle=[1])
    assert_finished(run)
    plain = {key: value for key, value in settings.items() if not key.startswith("privacy")}
    open_run = tiny(plain, clients=4, idle=[1])
    assert_same_model(open_run, run)
    for one, other in zip(open_run.lines("metrics"), run.lines("metrics"), strict=True):
        assert one["test_accuracy"] == other["test_accuracy"]
        assert one["train_loss"] == pytest.approx(other["train_loss"], abs=1e-5)
    if settings is SECURE:
        assert of_round(run, "clients", 2)["site-1"]["weight"] == 0


@pytest.mark.parametrize("settings", [SECURE, HIDDEN], ids=["secure", "hidden"])
def test_nobody_has_training_nodes(tiny: Tiny, settings: Settings) -> None:
    place = tiny.new_place()
    with pytest.raises(
        DataError, match="no client has a training node, so nothing is learned: give nodes a split"
    ):
        tiny(settings, idle=[0, 1, 2], place=place)
    assert not (place / "run" / "metrics.jsonl").exists()
    assert not (place / "run" / "model.safetensors").exists()


# Each attack says of which phase it changes the reply, from what it makes another one.
def spoilt_letters(reply: Reply) -> Reply:
    letters = tuple(
        replace(letter, body=letter.body[:-1] + bytes([letter.body[-1] ^ 1]))
        for letter in reply.content.letters
    )
    return replace(reply, content=replace(reply.content, letters=letters))


def no_letters(reply: Reply) -> Reply:
    return replace(reply, content=replace(reply.content, letters=()))


def letters_as_another(reply: Reply) -> Reply:
    letters = (Letter("site-0", "site-1", "shares", b"x"),)
    return replace(reply, content=replace(reply.content, letters=letters))


def with_vector(edit: Callable[[Tensor], Tensor]) -> Callable[[Reply], Reply]:
    return lambda reply: changed(reply, {UPLOAD: edit(reply.content.tensors[UPLOAD])})


Attack = Callable[[Reply], "Reply | Exception | None"]
ATTACKS: dict[str, tuple[str, Attack, str]] = {
    "silence": ("train", lambda reply: None, "no reply within"),
    "raises": ("train", lambda reply: ValueError(), "error 2: ValueError"),
    "another round": ("train", lambda reply: replace(reply, round=reply.round - 1), "stale or replayed"),
    "too short": ("train", with_vector(lambda vector: vector[:-1]), "has shape"),
    "too long": ("train", with_vector(lambda vector: torch.cat([vector, vector])), "has shape"),
    "not flat": ("train", with_vector(lambda vector: vector[None]), "has shape"),
    "another type": ("train", with_vector(lambda vector: vector.double()), "torch.float64"),
    "update in clear": (
        "train",
        lambda reply: changed(reply, {"update/layers.0.weight": torch.zeros(3)}),
        "not asked for",
    ),
    "a letter at upload": ("train", letters_as_another, "another sender"),
    "no keys": ("keys", lambda reply: changed(reply, keys=None), "must be a table of seal and sign"),
    "silent keys": ("keys", lambda reply: None, "no reply within"),
    "no shares": ("shares", lambda reply: changed(reply, shares=[1, 2]), "must publish mask_keys"),
    "too few mask keys": (
        "shares",
        lambda reply: changed(reply, shares={**reply.content.values["shares"], "mask_keys": []}),
        "one a sum",
    ),
    "degenerate keys": (
        "shares",
        lambda reply: changed(reply, shares={**reply.content.values["shares"], "mask_keys": ["00" * 32] * 4}),
        "protects nothing",
    ),
    "silent set-up": ("shares", lambda reply: None, "no reply within"),
    "letters of another": ("shares", letters_as_another, "another sender"),
    "spoilt letters": ("shares", spoilt_letters, "could not be read"),
    "no letters": ("shares", no_letters, "could not be read"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_run_goes_on_without_a_hostile_client_and_names_it(
    tiny: Tiny, once: Callable[..., Tried], name: str
) -> None:
    phase, attack, reason = ATTACKS[name]

    def act(client: str, told: Instruction, reply: Reply) -> Reply | Exception | None:
        return attack(reply) if client == "site-3" and told.phase == phase else reply

    # What happens to a client that failed in an exchange which is not repeated in every round.
    settings = {**SECURE, "rounds": 2 if name in ("silence", "no keys", "no shares", "no letters") else 1}
    run = tiny(settings, clients=4, patient="silen" not in name, answer=act)
    assert run.error is None
    for number in range(1, int(str(settings["rounds"])) + 1):
        rows = of_round(run, "clients", number)
        assert {client for client, row in rows.items() if row["weight"]} == {"site-0", "site-1", "site-2"}
        failed = [row for row in rows.values() if row["failed"]]
        if number == 1 or phase == "train":
            (row,) = failed
            assert row["client"] in ("site-3", "node 5")
            assert reason in row["failed"]
            assert not row["weight"]
    assert any(reason in text and ("site-3" in text or "node 5" in text) for text in run.notes.texts)
    assert_same_model(once({"rounds": settings["rounds"]}), run)  # the plain run of the honest three


RELEASES: dict[str, tuple[Attack, str]] = {
    "no table": (lambda reply: changed(reply, unmask=3), "no table of self and pair"),
    "garbage": (
        lambda reply: changed(reply, unmask={"self": {"site-0": "zz"}, "pair": {}}),
        "lower-case hexadecimal",
    ),
    "of strangers": (
        lambda reply: changed(reply, unmask={"self": {"site-9": "00" * 16}, "pair": {}}),
        "of others than it was asked for",
    ),
    "silence": (lambda reply: None, "no reply within"),
    "wrong shares": (
        lambda reply: changed(
            reply,
            unmask={"self": dict.fromkeys(reply.content.values["unmask"]["self"], "11" * 16), "pair": {}},
        ),
        "",
    ),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_that_is_of_no_use_is_named_and_costs_nothing(tiny: Tiny, name: str) -> None:
    attack, reason = RELEASES[name]

    def act(client: str, told: Instruction, reply: Reply) -> Reply | Exception | None:
        return attack(reply) if client == "site-3" and told.phase == "unmask" else reply

    run = tiny({**SECURE, "rounds": 1}, clients=4, patient=name != "silence", answer=act)
    assert_finished(run, 1)
    assert_same_model(tiny({"rounds": 1}, clients=4), run)
    assert not reason or any(reason in text and "site-3" in text for text in run.notes.texts)


@pytest.mark.parametrize(
    "told",
    [
        {"sizes": 5},
        {"sizes": {"nodes": 1, "train_nodes": 1, "val_nodes": 0, "test_nodes": 0}},
        {"statistics": []},
        {"training": "x"},
    ],
)
def test_what_was_to_be_hidden_is_refused_in_clear(tiny: Tiny, told: dict[str, object]) -> None:
    def act(client: str, instruction: Instruction, reply: Reply) -> Reply:
        return (
            changed(reply, **told) if client == "site-3" and instruction.phase in ("keys", "train") else reply
        )

    run = tiny({**HIDDEN, "rounds": 1}, clients=4, answer=act)
    assert_finished(run, 1)
    assert "is left out" in run.notes
    assert all(row["nodes"] is None for row in run.lines("clients"))


@pytest.mark.parametrize("settings", [SECURE, HIDDEN], ids=["secure", "hidden"])
def test_a_sum_that_holds_noise_is_not_used(tiny: Tiny, settings: Settings) -> None:
    """Who sent it cannot be known, so the round is empty; the model stays, and the next round may do better."""

    def act(client: str, told: Instruction, reply: Reply) -> Reply:
        if client == "site-3" and told.round in (2, 4) and UPLOAD in reply.content.tensors:
            noise = torch.randint(-(2**62), 2**62, reply.content.tensors[UPLOAD].shape)
            return changed(reply, {UPLOAD: noise})
        return reply

    run = tiny(settings, clients=4, answer=act)
    assert run.error is None
    rows = run.lines("metrics")
    assert [row["empty"] for row in rows] == [False, True, False]
    assert "the sum of site-0, site-1, site-2, site-3 is not used" in run.notes
    if settings is SECURE:
        assert rows[0]["test_accuracy"] == rows[1]["test_accuracy"] is not None
    else:
        assert rows[0]["test_accuracy"] is rows[2]["test_accuracy"] is None
        assert rows[1]["test_accuracy"] is not None
    assert all(float(value.abs().max()) < 10 for value in run.state.values())


@pytest.mark.parametrize(("report", "failed"), [(["site-0", "site-1", "nobody"], 0), (["site-0", 7], 1)])
def test_a_false_report_of_unread_letters_bars_nobody(tiny: Tiny, report: list[object], failed: int) -> None:
    """Nor does one of another form, whose sender alone fails."""

    def act(client: str, told: Instruction, reply: Reply) -> Reply:
        lies = client == "site-3" and told.phase == "train"
        return changed(reply, unread=report) if lies else reply

    run = tiny({**SECURE, "rounds": 2}, clients=4, answer=act)
    assert_finished(run, 2)
    assert run.phases == ["keys", "shares", *["train", "unmask"] * 2, "close"]
    assert [row["clients_failed"] for row in run.lines("metrics")] == [failed, failed]
    for number in (1, 2):
        rows = of_round(run, "clients", number)
        assert [name for name, row in rows.items() if row.get("failed")] == ["site-3"] * failed


def test_a_site_whose_vault_is_damaged_fails_by_itself(tiny: Tiny) -> None:
    """The error of the protocol crosses as text, since it holds nothing private; the site is back in the next block."""
    place = tiny.new_place()

    def damage(client: str, told: Instruction) -> Instruction:
        if client == "site-3" and told.phase == "train" and told.round == 2:
            (vault,) = (place / client / "secure").rglob("vault.json")
            vault.write_text("{")
        return told

    run = tiny({**SECURE, "privacy.block-rounds": 2, "rounds": 4}, clients=4, place=place, tell=damage)
    assert_finished(run, 4)
    assert "vault.json of this run is damaged at site-3" in of_round(run, "clients", 2)["site-3"]["failed"]
    assert [row["clients_ok"] for row in run.lines("metrics")] == [4, 3, 4, 4]


def test_secrets_stay_at_the_site(once: Callable[..., Tried]) -> None:
    run = once({"method": "fedavg", **SECURE})
    sent = b"".join(b"\0".join(parcel.objects.values()) for one in run.crossed for parcel in one.parcels)
    for session in run.sessions:
        identity = (session.site.keys / "identity.key").read_bytes()
        assert identity[:32] not in sent
        assert identity.hex()[:64].encode() not in sent
        assert session.site.keys.stat().st_mode & 0o077 == 0
    files = {path.name for path in (run.place / "run").rglob("*") if path.is_file()}
    assert not files & {"vault.json", "identity.key"}


def test_a_sum_needs_a_whole_request(tiny: Tiny) -> None:
    """A server that leaves out or garbles parts of its request is told what is wrong, and learns nothing."""
    wrong: list[Callable[[dict[str, Any]], object]] = [
        lambda told: 3,
        lambda told: {**told, "layout": {**told["layout"], "classes": -1}},
    ]
    for edit in wrong:

        def garble(client: str, told: Instruction, edit: Any = edit) -> Instruction:
            request = told.content.values.get("sum")
            if request is None or client != "site-0":
                return told
            return replace(
                told, content=replace(told.content, values={**told.content.values, "sum": edit(request)})
            )

        run = tiny({**SECURE, "rounds": 1}, clients=4, tell=garble)
        assert not any(reply.client == "site-0" for reply in run.replies("train"))
        (failed,) = (row["failed"] for row in run.lines("clients") if row["failed"])
        assert "ProtocolError" in failed or "WireError" in failed


@pytest.mark.parametrize("settings", [SECURE, HIDDEN])
def test_one_site_alone_with_an_update_is_not_summed(tiny: Tiny, settings: Settings) -> None:
    run = tiny(settings, idle=[0, 2])
    assert run.summary is None
    assert "site-1 has 1.000 of the weight of 3 members" in str(run.error)


def test_a_site_with_new_keys_is_asked_for_them(tiny: Tiny) -> None:
    place = tiny.new_place()
    names = [f"site-{number}" for number in range(4)]

    def online(exchange: int) -> list[str]:
        if exchange == 7:  # in the third round, before its new block
            (place / "site-1" / "keys" / "identity.key").unlink()
        return names

    run = tiny({**SECURE, "privacy.block-rounds": 2, "rounds": 6}, clients=4, place=place, online=online)
    assert run.error is None
    assert "ask for its keys again" in run.notes
    weights = {row["round"]: row["weight"] for row in run.lines("clients") if row["client"] == "site-1"}
    assert [bool(weights[number]) for number in range(1, 7)] == [True, True, False, False, True, True]
