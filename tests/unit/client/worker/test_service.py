from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.methods.base import ClientMethod
from fedtag.client.policy.spending import spent_by_run
from fedtag.client.worker.frames import Frame, receive, record_frame, record_of, send
from fedtag.client.worker.handover import ask
from fedtag.client.worker.identity import Identity, settings_digest
from fedtag.client.worker.jobs import digest_of
from fedtag.client.worker.place import Place, place_of
from fedtag.client.worker.service import Service, listening
from fedtag.common.config import RunConfig
from fedtag.common.wire.serialised import Serialised
from fedtag.common.wire.signs import Collect, lost, serialised_sign, sign_of
from fedtag.runs.listing import register
from tests.objects import method_spec

RUN_CONFIG = RunConfig.from_flat({"method": "fedavg", "model.hidden": 4, "train.epochs": 1}).to_flat()


def instruction(run: str = "run", step: int = 1, phase: str = "train", **values: Any) -> Serialised:
    table = {"kind": "Instruction", "run": run, "step": step, "round": step, "phase": phase, "values": values}
    return Serialised(json.dumps(table))


@dataclass
class Running:
    """A service in a thread, on the socket of a site."""

    place: Place
    service: Service
    thread: threading.Thread
    node: dict[str, Any]

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(60)
        connection.connect(str(self.place.socket))
        return connection

    def hello(self, connection: socket.socket, **fields: Any) -> Frame:
        own = {**vars(Identity.own()), "settings": settings_digest(RUN_CONFIG, self.node)}
        send(connection, Frame("hello", {**own, **fields}))
        return receive(connection)

    def instruct(self, record: Serialised, told: dict[str, Any] | None = None, **hello: Any) -> Frame:
        with self.connect() as connection:
            connection.settimeout(600)
            self.hello(connection, **hello)
            request = {"run_config": RUN_CONFIG, "node_config": self.node, "patience": 600.0, **(told or {})}
            send(connection, record_frame("instruct", record, request))
            return receive(connection)


@pytest.fixture
def running(write_feature_folder: Callable[..., Path]) -> Iterator[Callable[..., Running]]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short, contextlib.ExitStack() as stack:
        workspace = Path(short)
        place = place_of(workspace)
        place.prepare()
        data = write_feature_folder(workspace / "data", nodes=24)

        def start(**times: float) -> Running:
            listener = stack.enter_context(listening(place))
            service = Service(listener, **times)
            thread = threading.Thread(target=service.run)
            thread.start()
            stack.callback(thread.join, 30)
            stack.callback(ask, workspace, "stop", 1.0)
            node = {"data": str(data), "workspace": str(workspace), "device": "cpu"}
            return Running(place, service, thread, node)

        yield start


def test_only_the_user_can_reach_the_socket(running: Callable[..., Running]) -> None:
    assert running().place.socket.stat().st_mode & 0o777 == 0o600


def test_the_welcome_tells_what_runs(running: Callable[..., Running]) -> None:
    worker = running()
    with worker.connect() as connection:
        assert Identity.told(worker.hello(connection, code="another")) == Identity.own()


@pytest.mark.parametrize("field", ["code", "version"])
def test_another_program_is_not_served(running: Callable[..., Running], field: str) -> None:
    answer = running().instruct(instruction(), **{field: "another"})
    assert answer.kind == "error"
    assert "another fedtag" in answer.text("text")
    assert answer.text("reason") == "WireError; the site's own log says more"


def test_settings_must_be_those_announced(running: Callable[..., Running]) -> None:
    worker = running()
    answer = worker.instruct(instruction(), {"run_config": {**RUN_CONFIG, "seed": 9}})
    assert "not those that were announced" in answer.text("text")
    assert worker.instruct(instruction()).kind == "reply"


def test_errors_keep_their_text_from_the_server(running: Callable[..., Running]) -> None:
    worker = running()
    nodes = Path(worker.node["data"]) / "nodes.csv"
    whole = nodes.read_text()
    nodes.write_text(whole.replace("text of node 1,b", "text of node 1,secret"))
    answer = worker.instruct(instruction())
    assert "secret" in answer.text("text")
    assert answer.text("reason") == "DataError; the site's own log says more"
    # An expected error ends nothing: the next message is served from the corrected folder.
    nodes.write_text(whole)
    assert json.loads(record_of(worker.instruct(instruction())).header)["kind"] == "Reply"


def test_an_unexpected_error_ends_the_worker(running: Callable[..., Running]) -> None:
    worker = running()
    answer = worker.instruct(instruction(phase="train", training_seconds="long"))
    assert answer.kind == "error"
    # The check of types that the tests add has an error of its own.
    assert answer.text("reason").endswith("Error; the site's own log says more")
    assert "long" not in answer.text("reason")
    worker.thread.join(10)
    assert not worker.thread.is_alive()


class Greedy(ClientMethod[None]):
    """Its step wants more memory than there is."""

    def loss(self, model: Any, examples: Any, generator: torch.Generator) -> Callable[[], torch.Tensor]:
        return lambda: torch.empty(2**50)


@pytest.mark.usefixtures("handed_over")
def test_memory_that_ran_out_ends_the_worker_and_tells_what_to_set(running: Callable[..., Running]) -> None:
    worker = running()
    config = {**RUN_CONFIG, "method": register(method_spec("greedy", Greedy())), "train.batch-size": 8}
    digest = settings_digest(config, worker.node)
    answer = worker.instruct(instruction(), {"run_config": config}, settings=digest)
    assert answer.text("reason").startswith(
        "CapacityError: the memory of cpu ran out with train.batch-size = 8, "
    )
    worker.thread.join(10)
    assert not worker.thread.is_alive()


def test_hostile_clients_do_not_stop_the_next_one(running: Callable[..., Running]) -> None:
    worker = running()
    for sent in (b"", b"\xff" * 64, b"\x02\x00\x00\x00{}", b"\x01"):
        with worker.connect() as connection:
            connection.sendall(sent)
    with worker.connect() as connection:
        worker.hello(connection)
        send(connection, Frame("please"))
        with pytest.raises(ConnectionError):
            receive(connection)
    with worker.connect() as connection:
        send(connection, Frame("good day"))
        with pytest.raises(ConnectionError):
            receive(connection)
    assert ask(Path(worker.node["workspace"]), "release", 5)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_not_served(running: Callable[..., Running]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # An address without a file, which no permission protects.
        address = f"\0fedtag-test-{os.getpid()}"
        listener.bind(address)
        listener.listen()
        thread = threading.Thread(target=Service(listener, idle=3.0).run)
        thread.start()
        child = (
            "import os, socket\nos.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\n"
            f"s.connect({address!r})\ns.settimeout(10)\nraise SystemExit(s.recv(1) != b'')"
        )
        assert subprocess.run([sys.executable, "-c", child], check=False, cwd="/").returncode == 0
        thread.join(20)


def test_it_ends_when_it_is_idle(running: Callable[..., Running]) -> None:
    worker = running(idle=0.3)
    start = time.monotonic()
    worker.thread.join(10)
    assert 0.2 < time.monotonic() - start < 5
    assert not worker.thread.is_alive()


def test_the_idle_time_is_what_the_site_says_last(running: Callable[..., Running]) -> None:
    worker = running(idle=60.0)
    assert worker.instruct(instruction(), {"idle": 0.2}).kind == "reply"
    worker.thread.join(10)
    assert not worker.thread.is_alive()


def test_it_ends_soon_after_the_closing_exchange(running: Callable[..., Running]) -> None:
    worker = running(idle=60.0, closing=0.3)
    reply = record_of(worker.instruct(instruction())).tensors
    assert reply is not None
    assert worker.instruct(instruction(step=2, phase="close")).kind == "reply"
    worker.thread.join(10)
    assert not worker.thread.is_alive()


def test_another_run_outlives_the_closing_exchange_of_the_first(running: Callable[..., Running]) -> None:
    worker = running(idle=60.0, closing=0.2)
    worker.instruct(instruction("one"))
    worker.instruct(instruction("other"))
    worker.instruct(instruction("one", step=2, phase="close"))
    worker.thread.join(1)
    assert worker.thread.is_alive()
    assert worker.service._runs is not None
    assert len(worker.service._runs) == 1


def test_a_release_drops_what_is_kept_and_the_work_goes_on(running: Callable[..., Running]) -> None:
    worker = running()
    first = record_of(worker.instruct(instruction()))
    assert worker.service._runs is not None
    assert len(worker.service._runs) == 1
    assert ask(Path(worker.node["workspace"]), "release", 5)
    assert len(worker.service._runs) == 0
    assert record_of(worker.instruct(instruction())).tensors == first.tensors


def test_work_that_takes_long_is_told_and_its_answer_collected(running: Callable[..., Running]) -> None:
    worker, record = running(), instruction()
    sign = sign_of(record_of(worker.instruct(record, {"patience": 1e-6})))
    assert sign is not None
    asked = Collect("run", 1, 1, "train", sign.job)
    assert sign.state in ("queued", "working")
    # Whoever asks once more is answered by the same work; another run has none of it.
    again = sign_of(record_of(worker.instruct(record, {"patience": 1e-6})))
    assert again is None or again.job == sign.job
    other = Collect("run", 1, 1, "train", "0" * 64)
    assert record_of(worker.instruct(serialised_sign(other))) == serialised_sign(lost(other))
    found = record_of(worker.instruct(serialised_sign(asked)))
    assert json.loads(found.header)["kind"] == "Reply"
    assert record_of(worker.instruct(record)) == record_of(worker.instruct(serialised_sign(asked))) == found


def test_what_is_kept_passes_the_policy_of_now_and_is_counted_each_time(
    running: Callable[..., Running],
) -> None:
    worker = running()
    workspace, record = Path(worker.node["workspace"]), instruction()
    (workspace / "kept").mkdir()
    policy = workspace / "policy.toml"
    policy.write_text('folder = "kept"\nbudget.updates = 1\nbudget.mb = 9', encoding="utf-8")
    worker.node["policy"] = str(policy)
    found = record_of(worker.instruct(record))
    (once,) = spent_by_run(workspace / "kept").values()
    asked = serialised_sign(Collect("run", 1, 1, "train", digest_of(record)))
    assert record_of(worker.instruct(asked)) == record_of(worker.instruct(record)) == found
    (thrice,) = spent_by_run(workspace / "kept").values()
    assert (thrice.replies, thrice.updates) == (3, once.updates)
    assert thrice.size == pytest.approx(3 * once.size, rel=0.01)
    lines = [line for day in (workspace / "audit").glob("*-*.jsonl") for line in day.read_text().splitlines()]
    assert sum('"answered"' in line for line in lines) == 3
    policy.write_text('methods = ["dance"]', encoding="utf-8")
    refused = worker.instruct(asked)
    assert refused.kind == "error"
    assert "rule 'methods'" in refused.text("reason")


def test_an_answer_that_is_awaited_outlives_a_short_idle_time(running: Callable[..., Running]) -> None:
    worker = running(idle=60.0)
    sign = sign_of(record_of(worker.instruct(instruction(), {"patience": 1e-6, "idle": 0.1})))
    assert sign is not None
    deadline = time.monotonic() + 60
    while worker.service._runs is None or worker.service.jobs._present is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    worker.thread.join(0.5)
    assert worker.thread.is_alive()
    asked = serialised_sign(Collect("run", 1, 1, "train", sign.job))
    assert worker.instruct(asked, {"idle": 0.1}).kind == "reply"
    worker.thread.join(10)
    assert not worker.thread.is_alive()


def test_a_worker_outlives_a_closing_exchange_whose_answer_nobody_has_yet(
    running: Callable[..., Running],
) -> None:
    worker = running(idle=60.0, closing=0.1)
    sign = sign_of(record_of(worker.instruct(instruction(phase="close"), {"patience": 1e-6})))
    assert sign is not None
    deadline = time.monotonic() + 60
    while worker.service._runs is None or not worker.service._runs.some_closed:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    worker.thread.join(0.5)
    assert worker.thread.is_alive()
    asked = Collect("run", 1, 1, "close", sign.job)
    assert json.loads(record_of(worker.instruct(serialised_sign(asked))).header)["kind"] == "Reply"
    worker.thread.join(10)
    assert not worker.thread.is_alive()


def test_a_worker_that_is_to_stop_finishes_what_it_does(running: Callable[..., Running]) -> None:
    worker = running()
    answers: list[Frame] = []
    waiting = threading.Thread(target=lambda: answers.append(worker.instruct(instruction())))
    waiting.start()
    deadline = time.monotonic() + 30
    while not worker.service.jobs.awaited:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert ask(Path(worker.node["workspace"]), "stop", 60)
    waiting.join(30)
    assert [answer.kind for answer in answers] == ["reply"]
    worker.thread.join(10)
    assert not worker.thread.is_alive()


def test_asking_where_no_worker_is() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        assert not ask(Path(short), "stop", 1)
        place = place_of(Path(short))
        place.prepare()
        listening(place).close()
        assert not ask(Path(short), "stop", 1)
