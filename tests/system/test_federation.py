from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fedtag.common.errors import DeploymentError
from fedtag.deploy.federation.local import LocalFederation, SimulatedFederation

AWKWARD = "a \"b\" 'c' \\ d = e\nsecond line, é"

PROJECT = """
[project]
name = "toy"
version = "0.0.1"
description = "Echoes what a client sees."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "fedtag"

[tool.flwr.app.components]
serverapp = "toyserver:app"
clientapp = "toyclient:app"

[tool.flwr.app.config]
nodes = 2
mode = "echo"

[tool.flwr.app.config.nested]
text = "default"
"""

SERVER = """
import json
import time

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    if context.run_config["mode"] == "fail":
        raise ValueError("the toy fails on purpose")
    while len(nodes := list(grid.get_node_ids())) < context.run_config["nodes"]:
        time.sleep(0.05)
    print("READY", flush=True)
    while context.run_config["mode"] == "hang":
        grid.get_node_ids()
        time.sleep(0.05)
    waiting = set(
        grid.push_messages(
            [Message(RecordDict(), dst_node_id=n, message_type="query.echo", ttl=60) for n in nodes]
        )
    )
    while waiting:
        for reply in grid.pull_messages(waiting):
            waiting.discard(reply.metadata.reply_to_message_id)
            print("REPLY " + reply.content["seen"]["json"], flush=True)
        time.sleep(0.05)
"""

# The helper process has a session of its own, as a worker that outlives its message would.
CLIENT = """
import json
import subprocess
import sys

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query("echo")
def echo(message, context):
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    seen = {"node": dict(context.node_config), "run": dict(context.run_config), "helper": helper.pid}
    return Message(RecordDict({"seen": ConfigRecord({"json": json.dumps(seen)})}), reply_to=message)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    app = tmp_path / "toy app"
    app.mkdir()
    for name, text in {"pyproject.toml": PROJECT, "toyserver.py": SERVER, "toyclient.py": CLIENT}.items():
        (app / name).write_text(text, encoding="utf-8")
    return app


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home folder; afterwards no living process may still refer to it."""
    folder = tmp_path / "home"
    yield folder
    assert processes_of(folder) == []


def processes_of(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in str(process.environ().get("FLWR_HOME")) + " ".join(process.cmdline()):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def replies(lines: list[str]) -> list[dict[str, dict[str, object]]]:
    return [json.loads(line.removeprefix("REPLY ")) for line in lines if line.startswith("REPLY ")]


def test_local_federation_echoes_fails_and_ends(toy: Path, home: Path) -> None:
    nodes = [{"device": f'it\'s site "{i}" \\ = x', "data": str(toy)} for i in range(2)]
    lines: list[str] = []
    with LocalFederation(toy, home, nodes, plain=True) as federation:
        outcome = federation.run({"nested.text": AWKWARD}, lines.append)
        assert outcome.succeeded, outcome
        assert outcome.status == "finished:completed"
        seen = replies(lines)
        assert sorted(str(reply["node"]["device"]) for reply in seen) == [node["device"] for node in nodes]
        assert {str(reply["run"]["nested.text"]) for reply in seen} == {AWKWARD}
        helpers = [int(str(reply["helper"])) for reply in seen]
        assert all(is_alive(pid) for pid in helpers)

        outcome = federation.run({"mode": "fail", "nested.text": ""}, lines.append)
        assert not outcome.succeeded
        assert outcome.status == "finished:failed"
        assert "the toy fails on purpose" in outcome.details

        with pytest.raises(DeploymentError, match=r"nested\.texts, nope have no default .*pyproject\.toml"):
            federation.run({"nope": 1, "nested.texts": "x"}, lines.append)
    assert processes_of(home) == []
    assert not any(is_alive(pid) for pid in helpers)


def test_encrypted_federation_knows_its_nodes(toy: Path, home: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    with LocalFederation(toy, home, [{"device": "a", "data": str(toy)}], tls=True, plain=True) as federation:
        assert federation.run({"nodes": 1}, lines.append).succeeded
        assert [reply["node"]["device"] for reply in replies(lines)] == ["a"]
        assert "insecure" not in (home / "logs" / "node-0.log").read_text()
        no_key = tmp_path / "no.pub"
        no_key.write_text("no key")
        with pytest.raises(DeploymentError, match=r"Flower refused the key .*no\.pub"):
            federation._control.register(no_key)
        with pytest.raises(DeploymentError, match=r"Flower refused the key .*node-0\.pub.*already"):
            federation._control.register(home / "keys" / "server" / "institutions" / "node-0.pub")


def test_interrupt_stops_the_run_and_a_killed_node_returns(toy: Path, home: Path) -> None:
    class InterruptError(KeyboardInterrupt):
        pass

    def interrupt(line: str) -> None:
        if line == "READY":
            raise InterruptError

    with LocalFederation(toy, home, [{"device": "a", "data": str(toy)}], plain=True) as federation:
        with pytest.raises(DeploymentError, match="node 0 still runs: kill it"):
            federation.restart_node(0)
        federation.kill_node(0)
        assert [line for line in processes_of(home / "node-0") if "superexec" in line] == []
        federation.restart_node(0)
        with pytest.raises(InterruptError):
            federation.run({"mode": "hang", "nodes": 1}, interrupt)
        deadline = time.monotonic() + 10
        while any("serverapp" in line for line in processes_of(home)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert [line for line in processes_of(home) if "serverapp" in line] == []


def test_program_that_dies_at_start_is_reported_with_its_log(toy: Path, home: Path) -> None:
    with (
        pytest.raises(
            DeploymentError, match=r"superlink ended with code 1(.|\n)*superlink\.log(.|\n)*Fatal Python"
        ),
        LocalFederation(
            toy, home, [{"device": "a", "data": str(toy)}], environment={"PYTHONHOME": "/nonexistent"}
        ),
    ):
        pytest.fail("the federation started")


def test_start_that_takes_too_long_leaves_nothing(toy: Path, home: Path) -> None:
    with (
        pytest.raises(DeploymentError, match=r"superlink did not answer within 0 s"),
        LocalFederation(toy, home, [{"device": "a", "data": str(toy)}], start_seconds=0),
    ):
        pytest.fail("the federation started")
    assert processes_of(home) == []


def test_app_without_project_is_refused(tmp_path: Path, home: Path) -> None:
    with (
        SimulatedFederation(tmp_path / "nothing", home, 2) as federation,
        pytest.raises(DeploymentError, match=r"nothing/pyproject\.toml is not a Flower app's"),
    ):
        federation.run({}, lambda line: None)


def test_programs_found_without_activated_environment(
    toy: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with LocalFederation(toy, home, [], plain=True) as federation:
        assert federation.run({"nodes": 0}, lambda line: None).succeeded


@pytest.mark.slow
def test_simulated_federation_echoes_fails_and_ends(toy: Path, home: Path) -> None:
    lines: list[str] = []
    with SimulatedFederation(toy, home, 2) as federation:
        outcome = federation.run({"nested.text": AWKWARD}, lines.append)
        assert outcome.succeeded, "\n".join([str(outcome), *lines])
        seen = replies(lines)
        partitions = sorted(
            (reply["node"]["partition-id"], reply["node"]["num-partitions"]) for reply in seen
        )
        assert partitions == [(0, 2), (1, 2)]
        assert {str(reply["run"]["nested.text"]) for reply in seen} == {AWKWARD}

        outcome = federation.run({"mode": "fail"}, lines.append)
        assert not outcome.succeeded
        assert "the toy fails on purpose" in outcome.details
    assert processes_of(home) == []
