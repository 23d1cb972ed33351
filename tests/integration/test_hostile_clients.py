"""Ten institutions, one of them hostile from the first round on: the others go on as if it had sent nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Error, Message

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wire.codec import decode_reply, encode, pack
from fedtag.common.wire.records import Letter, Reply
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory
from tests.tiny import unhurried

HONEST = 9
HOSTILE_NODE = 2 + HONEST
ROUNDS = 3
MEGABYTES = 0.05
SETTINGS: dict[str, object] = {
    "rounds": ROUNDS,
    "device": "cpu",
    "ratio": 0.2,
    "model.hidden": 8,
    "dance.propagated": 1,
    "exchange.poll": 0.001,
    # Long enough for all: a grid in this process has every reply when sending returns.
    "exchange.deadline": 0.2,
    "exchange.first-deadline": 0.2,
    "exchange.max-message-mb": MEGABYTES,
}

Tensors = dict[str, torch.Tensor]
Attack = Callable[[list[Message], Message], Message | None]


class HostileGrid(InProcessGrid):
    """A grid in which one node sends what an attack makes of its honest replies, the last of them being due."""

    def __init__(self, sessions: Sequence[SiteRun], attack: Attack | None, first: int) -> None:
        super().__init__(sessions)
        self.attack = attack
        self.first = first
        self.honest: list[Message] = []

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = list(messages)
        keys = super().push_messages(sent)
        for key, instruction in zip(keys, sent, strict=True):
            if self.attack is None or instruction.metadata.dst_node_id != HOSTILE_NODE:
                continue
            self.honest.append(self.replies.pop(key))
            instruction.metadata.__dict__["_message_id"] = key
            reply: Message | None = self.honest[-1]
            if int(instruction.metadata.group_id) >= self.first:
                reply = self.attack(self.honest, instruction)
            if reply is not None:
                self.replies[key] = self._deliver(pack(reply))
        return keys


def edited(edit: Callable[[Reply], Reply]) -> Attack:
    return lambda honest, instruction: Message(
        encode(edit(decode_reply(honest[-1].content, 1e12))), reply_to=instruction
    )


def with_tensors(edit: Callable[[Tensors], Mapping[str, torch.Tensor]]) -> Attack:
    return edited(
        lambda reply: replace(
            reply, content=replace(reply.content, tensors=edit(dict(reply.content.tensors)))
        )
    )


def every_float(change: Callable[[torch.Tensor], torch.Tensor]) -> Attack:
    return with_tensors(
        lambda tensors: {
            name: change(value) if value.is_floating_point() else value for name, value in tensors.items()
        }
    )


def one_spoilt(value: torch.Tensor) -> torch.Tensor:
    spoilt = value.clone()
    spoilt.view(-1)[-1] = torch.nan
    return spoilt


def replayed(honest: list[Message], instruction: Message) -> Message:
    return Message(honest[0].content, reply_to=instruction)


def raising(honest: list[Message], instruction: Message) -> Message:
    return Message(Error(2, "ValueError; the site's own log says more"), reply_to=instruction)


def oversized(tensors: Tensors) -> Tensors:
    return {**tensors, "update/more": torch.zeros(int(MEGABYTES * 2**20))}


@dataclass(frozen=True)
class Case:
    """What the hostile node sends from round `first` on, and what is said of it in that and every later round."""

    attack: Attack
    reason: str
    first: int = 1
    settings: dict[str, object] = field(default_factory=dict)


CASES = {
    "not a number": Case(every_float(one_spoilt), "not finite"),
    "huge values": Case(every_float(lambda value: value + 1e30), "beyond"),
    "other keys": Case(
        with_tensors(lambda tensors: {f"{name}/x": value for name, value in tensors.items()}),
        "differ from the agreed ones",
    ),
    "keys of another model": Case(
        with_tensors(lambda tensors: {**tensors, "update/more": torch.zeros(3)}), "not asked for"
    ),
    "oversized": Case(with_tensors(oversized), r"exceed exchange\.max-message-mb"),
    "raises": Case(raising, "error 2"),
    "silent": Case(lambda honest, instruction: None, r"no reply within 0\.2 s"),
    "stale round": Case(edited(lambda reply: replace(reply, round=reply.round - 1)), "stale or replayed"),
    "withheld and sent later": Case(
        lambda honest, instruction: (
            replayed(honest, instruction) if len(honest) > 1 else raising(honest, instruction)
        ),
        "stale or replayed|error 2",
    ),
    "replayed": Case(replayed, "stale or replayed", first=2),
    "dtype": Case(every_float(torch.Tensor.double), "has shape .* and type torch.float64"),
    "shape": Case(every_float(lambda value: value.unsqueeze(0)), "has shape"),
    "another's name": Case(edited(lambda reply: replace(reply, client="site-0")), "also calls itself"),
    "another's letter": Case(
        edited(
            lambda reply: replace(
                reply, content=replace(reply.content, letters=(Letter("site-0", "site-1", "x", b"x"),))
            )
        ),
        "another sender",
    ),
    "silent towards dance": Case(
        lambda honest, instruction: None, r"no reply within 0\.2 s", settings={"method": "dance"}
    ),
    "not a number for dance": Case(every_float(one_spoilt), "not finite", settings={"method": "dance"}),
}


@dataclass(frozen=True)
class Result:
    """The model of a run and its tables."""

    state: str
    rounds: list[dict[str, Any]]
    clients: list[dict[str, Any]]


Run = Callable[..., Result]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]) -> Run:
    """Runs the first clients of ten; an attack is that of the tenth. Equal runs are done once."""
    place = tmp_path_factory.mktemp("hostile")
    folders = [
        write_feature_folder(place / "data" / f"site-{k}", nodes=24 + 3 * k, seed=k)
        for k in range(HONEST + 1)
    ]

    def federate(
        settings: Mapping[str, object], clients: int, attack: Attack | None = None, first: int = 1
    ) -> Result:
        config = RunConfig.from_flat(
            without_foreign({**SETTINGS, "method": "fedavg", "clients": clients, **settings})
        )
        work = tmp_path_factory.mktemp("run")
        sessions = [
            SiteRun(Site(folder.name, folder, work / folder.name, work / "cache", "cpu"), config)
            for folder in folders[:clients]
        ]
        rounds = Rounds(
            HostileGrid(sessions, attack, first), config, RunDirectory(work / "run"), LineProgress()
        )
        with pytest.MonkeyPatch.context() as patch:
            # The report has tests of its own and takes longer than a run of this size.
            patch.setattr("fedtag.server.run.conclusion.write_report", lambda runs, out: None)
            with unhurried():
                assert rounds.run().rounds == ROUNDS
        assert rounds.run_state.state is not None
        return Result(
            fingerprint(rounds.run_state.state.tensors),
            lines(work / "run" / "metrics.jsonl"),
            lines(work / "run" / "clients.jsonl"),
        )

    return federate


@pytest.fixture(scope="module")
def without(run: Run) -> Run:
    """The run in which the tenth client contributes nothing from a round on."""
    done: dict[tuple[int, str], Result] = {}

    def reference(settings: Mapping[str, object], first: int) -> Result:
        key = (first, json.dumps(settings, sort_keys=True))
        if key not in done:
            absent = first == 1
            done[key] = (
                run(settings, HONEST) if absent else run(settings, HONEST + 1, attack=raising, first=first)
            )
        return done[key]

    return reference


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_client_is_named_and_changes_nothing(name: str, run: Run, without: Run) -> None:
    case = CASES[name]
    result = run(case.settings, HONEST + 1, case.attack, case.first)
    assert [(row["clients_ok"], row["clients_failed"]) for row in result.rounds] == [
        (HONEST + 1, 0) if number < case.first else (HONEST, 1) for number in range(1, ROUNDS + 1)
    ]
    for number in range(case.first, ROUNDS + 1):
        rows = [row for row in result.clients if row["round"] == number]
        (failed,) = [row for row in rows if row["failed"]]
        assert failed["client"] in (f"node {HOSTILE_NODE}", f"site-{HONEST}")
        assert failed["weight"] is None
        assert pytest.approx(1.0) == sum(row["weight"] for row in rows if row is not failed)
        assert re.search(case.reason, failed["failed"]), failed["failed"]
    reference = without(case.settings, case.first)
    assert result.state == reference.state
    scores = ("round", "train_loss", "val_accuracy", "test_accuracy", "test_macro_f1", "test_ece")
    assert [[row[key] for key in scores] for row in result.rounds] == [
        [row[key] for key in scores] for row in reference.rounds
    ]


def test_the_tenth_client_would_have_changed_the_model(run: Run, without: Run) -> None:
    assert run({}, HONEST + 1).state not in {without({}, 1).state, without({}, 2).state}
