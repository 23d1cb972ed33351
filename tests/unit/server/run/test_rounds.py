"""The round loop over real sessions, real bytes and a grid that drops, corrupts, delays and replaces replies."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.errors import QuorumError
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wire.codec import decode_reply, encode, pack
from fedtag.common.wire.records import Content, Letter, Reply
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.run_directory import RunDirectory
from tests.crossings import crossings

Change = Callable[[Message, Message], Message | None]
Script = Callable[[int, int, Message, Message], Message | None]
BASE = {
    "rounds": 3,
    "clients": 3,
    "device": "cpu",
    "ratio": 0.2,
    "model.hidden": 8,
    "dance.propagated": 1,
    "exchange.poll": 0.001,
    "exchange.start-timeout": 0.01,
}


class Notes:
    """Progress that remembers what a person would read."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.rows: list[RoundRow] = []

    def begin(self, rounds: int, done: int) -> None:
        self.done = done

    def advance(self, row: RoundRow) -> None:
        self.rows.append(row)

    def scored(self, row: RoundRow) -> None:
        pass

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        self.texts.append(text)


class ScriptedGrid(InProcessGrid):
    """A grid whose replies go through a script (node, round, instruction, reply), and whose nodes come and go."""

    def __init__(
        self,
        sessions: Sequence[SiteRun],
        script: Script | None = None,
        online: Callable[[int], Iterable[int]] | None = None,
    ) -> None:
        super().__init__(sessions)
        self.script = script
        self.online = online
        self.exchanges = 0
        self.undeliverable: set[int] = set()
        self.late: dict[int, int] = {}
        self.pulls = 0

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts) if self.online is None else self.online(self.exchanges + 1)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        self.exchanges += 1
        sent = list(messages)
        keys = super().push_messages(sent)
        for place, (key, message) in enumerate(zip(keys, sent, strict=True)):
            node, round_number = message.metadata.dst_node_id, int(message.metadata.group_id)
            message.metadata.__dict__["_message_id"] = key
            if self.script is not None:
                changed = self.script(node, round_number, message, self.replies[key])
                if changed is None:
                    del self.replies[key]
                elif changed is not self.replies[key]:
                    self.replies[key] = self._deliver(pack(changed))
            if node in self.undeliverable and round_number == 2:
                self.replies.pop(key, None)
                keys[place] = ""
        return keys

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The last node's reply comes first, and some only after a number of looks."""
        self.pulls += 1
        ready = [
            key
            for key in reversed(list(message_ids))
            if key in self.replies
            and self.pulls % 5 >= self.late.get(self.replies[key].metadata.src_node_id, 0)
        ]
        return super().pull_messages(ready)


Federate = Callable[..., list[SiteRun]]


@pytest.fixture(autouse=True)
def _without_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has tests of its own and takes longer than a run of this size."""
    monkeypatch.setattr("fedtag.server.run.conclusion.write_report", lambda runs, out: None)


@pytest.fixture(scope="module")
def folders(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]
) -> list[Path]:
    place = tmp_path_factory.mktemp("folders")
    return [write_feature_folder(place / f"site-{k}", nodes=24 + 12 * k, seed=k) for k in range(3)]


@pytest.fixture
def federate(folders: list[Path], tmp_path: Path) -> Federate:
    """Sessions of the sites, as new processes would open them; `run` names their workspace."""

    def build(config: RunConfig, run: str, which: Sequence[int] = (0, 1, 2)) -> list[SiteRun]:
        return [
            SiteRun(
                Site(f"site-{k}", folders[k], tmp_path / run / f"work-{k}", tmp_path / "cache", "cpu"), config
            )
            for k in which
        ]

    return build


def settings(method: str = "fedavg", **changes: Any) -> RunConfig:
    dotted = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
    return RunConfig.from_flat(without_foreign({**BASE, "method": method, **dotted}))


def final_state(rounds: Rounds) -> str:
    assert rounds.run_state.state is not None
    return fingerprint(rounds.run_state.state.tensors)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def scripted(node: int, round_number: int, change: Change) -> Script:
    def script(at: int, now: int, instruction: Message, reply: Message) -> Message | None:
        return change(instruction, reply) if (at, now) == (node, round_number) else reply

    return script


def edited(edit: Callable[[Reply], Reply]) -> Change:
    return lambda instruction, reply: Message(
        encode(edit(decode_reply(reply.content, 1e12))), reply_to=instruction
    )


def with_tensors(edit: Callable[[dict[str, torch.Tensor]], Mapping[str, torch.Tensor]]) -> Change:
    return edited(
        lambda reply: replace(
            reply, content=replace(reply.content, tensors=edit(dict(reply.content.tensors)))
        )
    )


def with_values(**values: Any) -> Change:
    return edited(
        lambda reply: replace(
            reply, content=replace(reply.content, values={**reply.content.values, **values})
        )
    )


def with_header(edit: Callable[[str], str]) -> Change:
    def change(instruction: Message, reply: Message) -> Message:
        record = reply.content["header"]
        record["json"] = edit(str(record["json"]))
        return Message(reply.content, reply_to=instruction)

    return change


def blob_of(header: dict[str, Any], data: bytes = b"") -> Change:
    def change(instruction: Message, reply: Message) -> Message:
        text = json.dumps(header).encode()
        blob = struct.pack("<Q", len(text)) + text + data
        array = Array(dtype="uint8", shape=(len(blob),), stype="safetensors", data=blob)
        del reply.content["header"]["tensors"]
        reply.content["tensors"] = ArrayRecord({"blob": array})
        return Message(reply.content, reply_to=instruction)

    return change


def only(name: str, value: Any) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    return lambda tensors: {**tensors, name: value(tensors[name])}


def wrapping(confusion: torch.Tensor) -> torch.Tensor:
    counts = torch.full_like(confusion, 0)
    counts.view(-1)[:4] = 2**62
    counts[-1, -1] = int(confusion.sum())
    return counts


WEIGHT, CONFUSION = "update/layers.0.conv.lin.weight", "scores/graph/test/confusion"
FAULTS: dict[str, tuple[Change, str]] = {
    "nan": (with_tensors(only(WEIGHT, lambda value: value * torch.nan)), "not finite"),
    "inf": (with_tensors(only(WEIGHT, lambda value: value + torch.inf)), "not finite"),
    "huge": (with_tensors(only(WEIGHT, lambda value: value + 1e30)), "beyond"),
    "shape": (with_tensors(only(WEIGHT, lambda value: value[:1])), "has shape"),
    "dtype": (with_tensors(only(WEIGHT, lambda value: value.double())), "has shape"),
    "missing": (with_tensors(lambda t: {k: v for k, v in t.items() if k != WEIGHT}), "missing"),
    "surplus": (with_tensors(lambda t: {**t, "update/more": torch.zeros(1)}), "not asked for"),
    "wrapping counts": (with_tensors(only(CONFUSION, wrapping)), "count more nodes"),
    "half a score": (
        with_tensors(lambda t: {k: v for k, v in t.items() if not k.startswith("scores/graph/test")}),
        "of val and of test",
    ),
    "calibration": (with_tensors(only("scores/graph/test/bin_correct", lambda v: v + 1000)), "correct"),
    "other round": (edited(lambda reply: replace(reply, round=1)), "stale or replayed"),
    "other run": (edited(lambda reply: replace(reply, run="x")), "stale or replayed"),
    "name": (edited(lambda reply: replace(reply, client="../../etc")), "no valid name"),
    "sizes": (with_values(sizes={"nodes": True}), "sizes: nodes: "),
    "seconds": (with_values(seconds={"train": "long"}), "seconds: train: "),
    "long seconds": (with_values(seconds={"train": 1e300}), "seconds: train: "),
    "loss": (with_values(training={"loss": 10**18, "steps": -1}), "training: steps: "),
    "condensation": (with_values(condensation={"core": 3}), "condensation: nodes: "),
    "tokens": (with_values(tokens=[1]), "tokens: "),
    "undeclared value": (with_values(diagnoses=["J45"]), "'diagnoses' is declared by nothing"),
    "undeclared tensor": (with_tensors(lambda t: {**t, "texts/1": torch.zeros(1)}), "'texts' is declared"),
    "infinite": (with_header(lambda text: text.replace('"seconds":{', '"seconds":{"x":1e999,')), "infinite"),
    "endless": (
        with_header(lambda text: text.replace('"steps":', f'"steps":{"9" * 400},"x":')),
        "64 characters",
    ),
    "deep": (
        with_header(lambda text: text.replace('"values":{', f'"values":{{"x":{"[" * 400}{"]" * 400},')),
        "nests",
    ),
    "not json": (with_header(lambda text: "}"), "not JSON"),
    "no header": (
        lambda instruction, reply: Message(RecordDict(), reply_to=instruction),
        "without a 'header'",
    ),
    "blob": (blob_of({"a": {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}}), "beyond what"),
    "letter": (
        edited(
            lambda reply: replace(
                reply,
                content=Content(reply.content.tensors, reply.content.values, (Letter("a", "b", "c", b""),)),
            )
        ),
        "another sender",
    ),
    "exception": (
        lambda instruction, reply: Message(Error(2, "ValueError; the site's own log"), reply_to=instruction),
        "error 2",
    ),
}


@pytest.fixture(scope="module")
def without_site_1() -> dict[str, str]:
    """The final state of the honest run in which site-1 contributes nothing in round 2."""
    return {}


@pytest.mark.parametrize("fault", ["undelivered", *FAULTS])
def test_a_hostile_reply_costs_its_own_contribution_only(
    fault: str, federate: Federate, tmp_path: Path, without_site_1: dict[str, str]
) -> None:
    config, notes = settings(), Notes()
    grid = ScriptedGrid(federate(config, "a"))
    change, reason = FAULTS.get(fault, (None, "could not be delivered"))
    if change is None:
        grid.undeliverable = {3}
    else:
        grid.script = scripted(3, 2, change)
    rounds = Rounds(grid, config, RunDirectory(tmp_path / "run"), notes)
    summary = rounds.run()

    assert summary.rounds == 3
    rows = lines(tmp_path / "run" / "metrics.jsonl")
    assert [(row["clients_ok"], row["clients_failed"]) for row in rows] == [(3, 0), (2, 1), (3, 0)]
    (row,) = [
        row
        for row in lines(tmp_path / "run" / "clients.jsonl")
        if (row["round"], row["client"]) == (2, "site-1")
    ]
    assert reason in row["failed"]
    assert row["weight"] is None
    assert any("round 2, site-1 is left out" in text and reason in text for text in notes.texts)
    # However it failed, the others go on as if site-1 had said nothing.
    assert final_state(rounds) == without_site_1.setdefault("state", final_state(rounds))


def test_silence_ends_with_the_deadline(
    federate: Federate, tmp_path: Path, without_site_1: dict[str, str]
) -> None:
    config = settings(exchange__deadline=2.0)
    grid = ScriptedGrid(federate(config, "a"), scripted(3, 2, lambda instruction, reply: None))
    rounds = Rounds(grid, config, RunDirectory(tmp_path / "run"), Notes())
    rounds.run()
    rows = lines(tmp_path / "run" / "clients.jsonl")
    (failed,) = {row["failed"] for row in rows if row["round"] == 2 and row["client"] == "site-1"}
    assert failed == "no reply within 2 s"
    if without_site_1:
        assert final_state(rounds) == without_site_1["state"]


def test_replies_that_are_there_count_however_long_sending_took(federate: Federate, tmp_path: Path) -> None:
    config = settings(exchange__deadline=1e-6, exchange__first_deadline=1e-6)
    rounds = Rounds(InProcessGrid(federate(config, "a")), config, RunDirectory(tmp_path / "run"), Notes())
    assert rounds.run().clients == 3


def test_late_replies_and_their_order_leave_no_trace(federate: Federate, tmp_path: Path) -> None:
    config = settings()
    plain = Rounds(InProcessGrid(federate(config, "a")), config, RunDirectory(tmp_path / "a-run"), Notes())
    plain.run()
    grid = ScriptedGrid(federate(config, "b"))
    grid.late = {2: 3, 4: 1}
    delayed = Rounds(grid, config, RunDirectory(tmp_path / "b-run"), Notes())
    delayed.run()
    assert final_state(plain) == final_state(delayed)


def failing_from(round_number: int, nodes: Sequence[int] = (2, 3, 4)) -> Script:
    def script(node: int, now: int, instruction: Message, reply: Message) -> Message | None:
        if now >= round_number and node in nodes:
            return Message(Error(2, "down"), reply_to=instruction)
        return reply

    return script


def remembered(sessions: Sequence[SiteRun], run: str) -> list[str]:
    found = [StateStore(session.site.state, run).load_before(10**6) for session in sessions]
    return [fingerprint(one.tensors) if one else "" for one in found]


RESUMED = {
    "fedavg": settings("fedavg", rounds=5),
    "fedavg, sampled": settings(
        "fedavg", rounds=5, train__client_fraction=0.5, aggregation__average_decay=0.9
    ),
    "isolated": settings("isolated", rounds=5),
    "isolated, sampled": settings("isolated", rounds=5, train__client_fraction=0.5),
    "dance": settings("dance", rounds=4),
    "dance, sampled": settings(
        "dance", rounds=5, dance__core_refresh=3, dance__text_refresh=2, train__client_fraction=0.5
    ),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, federate: Federate, tmp_path: Path) -> None:
    config = RESUMED[name]
    whole = Rounds(ScriptedGrid(federate(config, "a")), config, RunDirectory(tmp_path / "a-run"), Notes())
    whole.run()

    stopped = ScriptedGrid(federate(config, "b"), failing_from(4))
    with pytest.raises(QuorumError, match=r"round 4 stopped.*resume"):
        Rounds(stopped, config, RunDirectory(tmp_path / "b-run"), Notes()).run()
    assert not (tmp_path / "b-run" / "summary.json").exists()

    notes, sessions = Notes(), federate(config, "b")
    resumed = Rounds(ScriptedGrid(sessions), config, RunDirectory(tmp_path / "b-run", resume=True), notes)
    summary = resumed.run()

    assert notes.done == 3
    assert final_state(resumed) == final_state(whole)
    assert summary.best_round == whole.run_state.best_round
    assert summary.test_reliability
    assert summary.test_reliability == whole.run_state.best_reliability["test"]
    assert fingerprint(resumed.run_state.best) == fingerprint(whole.run_state.best)
    assert remembered(sessions, resumed.run_state.run) == remembered(
        federate(config, "a"), whole.run_state.run
    )
    scores = (
        "round",
        "train_loss",
        "val_accuracy",
        "test_accuracy",
        "test_macro_f1",
        "test_ece",
        "clients_ok",
    )
    one, other = (lines(tmp_path / run / "metrics.jsonl") for run in ("a-run", "b-run"))
    assert [[row[key] for key in scores] for row in one] == [[row[key] for key in scores] for row in other]


@pytest.mark.parametrize("method", ["isolated", "dance"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    method: str, federate: Federate, tmp_path: Path
) -> None:
    config = settings(method, rounds=4, **({"dance__core_refresh": 0} if method == "dance" else {}))
    whole = Rounds(ScriptedGrid(federate(config, "a")), config, RunDirectory(tmp_path / "a-run"), Notes())
    whole.run()
    with pytest.raises(QuorumError):
        Rounds(
            ScriptedGrid(federate(config, "b"), failing_from(4)),
            config,
            RunDirectory(tmp_path / "b-run"),
            Notes(),
        ).run()
    newest = tmp_path / "b-run" / "checkpoint" / "round-0003.safetensors"
    newest.write_bytes(newest.read_bytes()[:-7])

    notes, sessions = Notes(), federate(config, "b")
    resumed = Rounds(ScriptedGrid(sessions), config, RunDirectory(tmp_path / "b-run", resume=True), notes)
    resumed.run()
    assert notes.done == 2
    assert any("round-0003.safetensors is damaged" in text for text in notes.texts)
    assert final_state(resumed) == final_state(whole)
    assert remembered(sessions, resumed.run_state.run) == remembered(
        federate(config, "a"), whole.run_state.run
    )
    assert [row["round"] for row in lines(tmp_path / "b-run" / "metrics.jsonl")] == [1, 2, 3, 4]


def test_a_round_under_quorum_is_repeated_with_those_who_failed(federate: Federate, tmp_path: Path) -> None:
    config, attempts = settings(), []

    def flaky(node: int, now: int, instruction: Message, reply: Message) -> Message | None:
        if now == 2:
            attempts.append(node)
            if attempts.count(node) == 1 and node > 2:
                return Message(Error(2, "for a moment"), reply_to=instruction)
        return reply

    rounds = Rounds(
        ScriptedGrid(federate(config, "a"), flaky), config, RunDirectory(tmp_path / "run"), Notes()
    )
    rounds.run()
    plain = Rounds(InProcessGrid(federate(config, "b")), config, RunDirectory(tmp_path / "other"), Notes())
    plain.run()
    assert attempts == [2, 3, 4, 3, 4]
    assert final_state(rounds) == final_state(plain)
    assert [row["clients_ok"] for row in lines(tmp_path / "run" / "metrics.jsonl")] == [3, 3, 3]


def test_too_few_clients_at_the_start_stop_the_run(federate: Federate, tmp_path: Path) -> None:
    config = settings(exchange__quorum=0.9)
    rounds = Rounds(
        InProcessGrid(federate(config, "a", (0, 1))), config, RunDirectory(tmp_path / "run"), Notes()
    )
    with pytest.raises(QuorumError, match="2 of 3 clients came online"):
        rounds.run()


def test_a_late_joiner_takes_part_from_its_first_round(federate: Federate, tmp_path: Path) -> None:
    config = settings(clients=2, rounds=4)
    grid = ScriptedGrid(federate(config, "a"), online=lambda exchange: (2, 3) if exchange < 3 else (2, 3, 4))
    rounds = Rounds(grid, config, RunDirectory(tmp_path / "run"), Notes())
    rounds.run()
    rows = lines(tmp_path / "run" / "metrics.jsonl")
    assert [row["clients_ok"] for row in rows] == [2, 2, 3, 3]
    assert [row["clients_failed"] for row in rows] == [0, 0, 0, 0]
    assert set(rounds.run_state.weights) == {"site-0", "site-1", "site-2"}


def test_a_restarted_node_keeps_its_name(federate: Federate, tmp_path: Path) -> None:
    config = settings()
    sessions = federate(config, "a", (0, 1, 2, 1))
    grid = ScriptedGrid(sessions, online=lambda exchange: (2, 3, 4) if exchange < 3 else (2, 4, 5))
    rounds = Rounds(grid, config, RunDirectory(tmp_path / "run"), Notes())
    rounds.run()
    plain = Rounds(InProcessGrid(federate(config, "b")), config, RunDirectory(tmp_path / "other"), Notes())
    plain.run()
    assert rounds.phases.inbox.names == {2: "site-0", 4: "site-2", 5: "site-1"}
    assert final_state(rounds) == final_state(plain)


def test_two_nodes_of_one_name_count_once(federate: Federate, tmp_path: Path) -> None:
    config, notes = settings(), Notes()
    rounds = Rounds(
        InProcessGrid(federate(config, "a", (0, 1, 2, 1))), config, RunDirectory(tmp_path / "run"), notes
    )
    rounds.run()
    plain = Rounds(InProcessGrid(federate(config, "b")), config, RunDirectory(tmp_path / "other"), Notes())
    plain.run()
    assert final_state(rounds) == final_state(plain)
    assert any("node 5" in text and "give each site its own name" in text for text in notes.texts)


def test_a_thief_of_a_name_neither_gets_it_nor_takes_it_away(federate: Federate, tmp_path: Path) -> None:
    """Node 2 calls itself site-1 from round 2 on; the node that had the name keeps it."""
    config, notes = settings(), Notes()

    def thief(node: int, now: int, instruction: Message, reply: Message) -> Message | None:
        if node == 2 and now >= 2:
            return edited(lambda told: replace(told, client="site-1"))(instruction, reply)
        return reply

    rounds = Rounds(ScriptedGrid(federate(config, "a"), thief), config, RunDirectory(tmp_path / "run"), notes)
    rounds.run()
    assert rounds.phases.inbox.names[3] == "site-1"
    assert set(rounds.run_state.weights) == {"site-1", "site-2"}


def test_rows_are_scored_as_often_as_asked(federate: Federate, tmp_path: Path) -> None:
    config = settings(rounds=5, evaluation__every=2)
    summary = Rounds(
        InProcessGrid(federate(config, "a")), config, RunDirectory(tmp_path / "run"), Notes()
    ).run()
    rows = lines(tmp_path / "run" / "metrics.jsonl")
    # The last model is always scored.
    assert [row["val_accuracy"] is not None for row in rows] == [False, True, False, True, True]
    best = max((row for row in rows if row["val_accuracy"] is not None), key=lambda row: row["val_accuracy"])
    assert summary.best_round == best["round"]
    assert summary.test_accuracy == best["test_accuracy"]


def test_bytes_are_those_on_the_wire(federate: Federate, tmp_path: Path) -> None:
    config, sizes = settings(), []
    grid = InProcessGrid(federate(config, "a"), tap=lambda parcel: sizes.append(parcel.size))
    summary = Rounds(grid, config, RunDirectory(tmp_path / "run"), Notes()).run()
    assert summary.bytes_down == sum(sizes[0::2])
    assert summary.bytes_up == sum(sizes[1::2])


def test_disclosures_survive_a_resumption(federate: Federate, tmp_path: Path) -> None:
    config = settings(rounds=4)
    with pytest.raises(QuorumError):
        Rounds(
            ScriptedGrid(federate(config, "a"), failing_from(3)),
            config,
            RunDirectory(tmp_path / "run"),
            Notes(),
        ).run()
    Rounds(
        InProcessGrid(federate(config, "a")), config, RunDirectory(tmp_path / "run", resume=True), Notes()
    ).run()
    updates = [row for row in crossings(tmp_path / "run") if row["kind"] == "update"]
    assert sorted({row["round"] for row in updates}) == [1, 2, 3, 4]
