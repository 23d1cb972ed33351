"""The site's worker as a process of its own, on tiny graphs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from flwr.app import Context, RecordDict

from fedtag.client.app import at_the_site, client_app
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.worker.errors import CarriedOutError, WorkerLostError, WorkerUnavailableError
from fedtag.client.worker.handover import ask, hand_over
from fedtag.client.worker.identity import Identity
from fedtag.client.worker.place import Place, place_of
from fedtag.client.worker.settings import WorkerSettings
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.wire.envelope import opened, sealed
from fedtag.common.wire.protocol import app_versions
from fedtag.common.wire.serialisation import instruction_of, serialised
from fedtag.common.wire.serialised import Serialised
from fedtag.common.wire.signs import Collect, lost, serialised_sign, sign_of
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.tracking.run_directory import RunDirectory
from tests.crossings import crossings

REPOSITORY = Path(__file__).resolve().parents[2]
LISTENS = re.compile(r"worker (\d+) listens")
SETTINGS = {"method": "fedavg", "model.hidden": 4, "train.epochs": 2, "device": "cpu"}

# What a process that Flower starts for one message does, and what it has imported then.
ONE_MESSAGE = """
import json, sys
from flwr.app import Context, RecordDict
from fedtag.client.app import at_the_site
from fedtag.common.wire.envelope import opened, sealed
from fedtag.common.wire.serialised import Serialised

told = json.load(sys.stdin)
context = Context(run_id=1, node_id=1, node_config=told["node"], state=RecordDict(), run_config=told["run"])
record = opened(at_the_site(sealed(Serialised(told["header"])), context))
heavy = {"torch", "transformers", "torch_geometric", "sklearn", "pydantic", "safetensors"} & set(sys.modules)
print(json.dumps([record.tensors.hex(), sorted(heavy), len(sys.modules)]))
"""


def instruction(run: str = "run", step: int = 1, phase: str = "train") -> Serialised:
    table = {"kind": "Instruction", "run": run, "step": step, "round": step, "phase": phase, "values": {}}
    return Serialised(json.dumps(table))


@dataclass
class AtSite:
    """A site whose messages are handed over."""

    workspace: Path
    node: dict[str, Any]
    run: dict[str, Any] = field(default_factory=lambda: RunConfig.from_flat(SETTINGS).to_flat())

    @property
    def place(self) -> Place:
        return place_of(self.workspace)

    def __call__(self, record: Serialised, patience: float = 600.0, **settings: Any) -> Serialised:
        own = WorkerSettings(idle=60.0, patience=patience)
        return hand_over(record, own, self.node, {**self.run, **settings})

    def in_process(self, record: Serialised) -> Serialised:
        site = Site(
            "site", Path(self.node["data"]), self.workspace / "other", self.workspace / "cache", "cpu"
        )
        return serialised(SiteRun(site, RunConfig.from_flat(self.run)).respond(instruction_of(record)))

    def workers(self) -> list[int]:
        """All that ever listened."""
        log = self.place.log
        return [int(pid) for pid in LISTENS.findall(log.read_text())] if log.is_file() else []

    def living(self) -> list[int]:
        return [pid for pid in self.workers() if is_alive(pid)]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def computes(pid: int) -> bool:
    """Whether a worker has taken a message: only then it has PyTorch."""
    try:
        return any("libtorch" in part.path for part in psutil.Process(pid).memory_maps())
    except psutil.Error:
        return False


@pytest.fixture
def site(write_feature_folder: Callable[..., Path]) -> Iterator[AtSite]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        workspace = Path(short)
        data = write_feature_folder(workspace / "data", nodes=24)
        node = {"data": str(data), "workspace": str(workspace), "name": "site", "device": "cpu"}
        # A machine that has much to do shall have time.
        node["worker-patience"] = "600"
        at_site = AtSite(workspace, node)
        yield at_site
        ask(workspace, "stop", 5.0)
        wait_for(lambda: not at_site.living(), 20)
        assert not at_site.place.socket.exists()


def test_messages_of_a_run_meet_one_worker_with_the_replies_of_one_process(site: AtSite) -> None:
    expected = site.in_process(instruction())
    for _ in range(3):
        assert site(instruction()).tensors == expected.tensors
    assert len(site.workers()) == 1
    log = site.place.log.read_text()
    assert "text of node" not in log


@pytest.mark.parametrize(("method", "patience"), [("fedavg", "0.001"), ("dance", "600")])
def test_a_run_through_workers_equals_one_in_this_process(
    method: str, patience: str, write_feature_folder: Callable[..., Path], tmp_path: Path
) -> None:
    names = ("site-0", "site-1")
    folders = [write_feature_folder(tmp_path / name, nodes=24, seed=k) for k, name in enumerate(names)]
    settings = {**SETTINGS, "method": method, "rounds": 2, "clients": 2, "ratio": 0.2, "dance.rank": 2}
    results = []
    for kind in ("process", "worker"):
        config = RunConfig.from_flat(without_foreign({**settings, "out": str(tmp_path / kind)}))
        workspaces = [tmp_path / f"{kind}-{name}" for name in names]
        parts = zip(names, folders, workspaces, strict=True)
        sites = [Site(name, folder, own, own / "cache", "cpu") for name, folder, own in parts]
        grid = InProcessGrid([SiteRun(site, config) for site in sites])
        if kind == "worker":
            grid.app = client_app(at_the_site)
            for node, site in zip(list(grid.contexts), sites, strict=True):
                told = {"data": site.folder, "workspace": site.workspace, "name": site.name, "device": "cpu"}
                told["worker-patience"] = patience
                grid.contexts[node] = Context(
                    run_id=1,
                    node_id=node,
                    node_config={key: str(value) for key, value in told.items()},
                    state=RecordDict(),
                    run_config={**app_versions(), **config.to_flat()},
                )
        directory = RunDirectory(tmp_path / kind)
        try:
            Rounds(grid, config, directory, Silent()).run()
        finally:
            asked = [ask(own, "stop", 10.0) for own in workspaces]
        assert asked == [kind == "worker"] * 2
        signs = {row["from"] for row in crossings(directory.path) if row["kind"] == "working"}
        # The first message waits for PyTorch at least.
        assert signs >= set(names) if (kind, patience) == ("worker", "0.001") else not signs
        rows = [(row.train_loss, row.test_accuracy) for row in directory.read_rounds()]
        results.append((rows, (tmp_path / kind / "model.safetensors").read_bytes()))
    assert results[0] == results[1]


class Silent:
    """Progress that nobody sees."""

    def begin(self, rounds: int, done: int) -> None: ...

    def advance(self, row: object) -> None: ...

    def scored(self, row: object) -> None: ...

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None: ...


def test_two_processes_at_once_start_one_worker_and_import_little(site: AtSite) -> None:
    run = {**app_versions(), **site.run}
    told = json.dumps({"node": site.node, "run": run, "header": instruction().header})
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ONE_MESSAGE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(told)
        process.stdin.close()
        process.stdin = None
    outputs = [json.loads(process.communicate(timeout=120)[0].splitlines()[-1]) for process in processes]
    assert len(site.workers()) == 1
    expected = site.in_process(instruction()).tensors
    assert expected is not None
    for tensors, heavy, _ in outputs:
        assert bytes.fromhex(tensors) == expected
        assert heavy == []


def test_a_worker_killed_between_messages_is_replaced(site: AtSite) -> None:
    first = site(instruction())
    os.kill(site.workers()[0], signal.SIGKILL)
    wait_for(lambda: not site.living())
    assert site(instruction()).tensors == first.tensors
    assert len(site.workers()) == 2


def test_a_worker_killed_during_a_message_is_replaced_once(site: AtSite) -> None:
    site.run["train.epochs"] = 200
    results: list[Any] = []

    def hand() -> None:
        try:
            results.append(site(instruction()).tensors)
        except WorkerLostError as error:
            results.append(str(error))

    def killing(times: int) -> None:
        before = len(site.workers())
        thread = threading.Thread(target=hand)
        thread.start()
        for number in range(times):
            wait_for(lambda number=number: len(site.workers()) > before + number)
            pid = site.workers()[before + number]
            wait_for(lambda pid=pid: computes(pid))
            os.kill(pid, signal.SIGKILL)
        thread.join(120)

    killing(2)
    assert "2 workers ended while they carried out the message" in results[0]
    killing(1)
    assert results[1] == site.in_process(instruction()).tensors
    assert len(site.workers()) == 4


def test_a_worker_killed_between_a_sign_and_the_request_for_its_answer_is_asked_anew(site: AtSite) -> None:
    site.run["train.epochs"] = 200
    first = sign_of(site(instruction(), patience=0.01))
    assert first is not None
    assert first.state in ("queued", "working")
    asked = Collect(first.run, first.step, first.round, first.phase, first.job)
    wait_for(lambda: computes(site.workers()[0]))
    os.kill(site.workers()[0], signal.SIGKILL)
    wait_for(lambda: not site.living())
    # Another worker has nothing of it, and computes nothing that it was not asked for.
    assert sign_of(site(serialised_sign(asked))) == lost(asked)
    expected = site.in_process(instruction()).tensors
    site(instruction(), patience=0.01)
    assert site(serialised_sign(asked)).tensors == expected
    # The instruction that comes again has the same answer, and so has a second request for it.
    assert site(instruction()) == site(serialised_sign(asked))
    assert len(site.workers()) == 2


def test_two_runs_and_a_change_of_settings_share_a_worker(site: AtSite) -> None:
    expected = site.in_process(instruction())
    for run in ("one", "other", "one", "other"):
        assert site(instruction(run)).tensors == expected.tensors
    changed = site(instruction("one"), seed=5)
    assert changed.tensors != expected.tensors
    assert site(instruction("one")).tensors == expected.tensors
    assert len(site.workers()) == 1


def test_a_worker_with_other_code_is_replaced(site: AtSite) -> None:
    install = site.workspace / "install"
    shutil.copytree(REPOSITORY / "fedtag", install / "fedtag")
    for package in ("client", "common"):
        shutil.copytree(REPOSITORY / package, install / "fedtag" / package)
    module = install / "fedtag" / "client" / "worker" / "place.py"
    module.write_text(module.read_text() + "\n")
    (install / "run.py").write_text(ONE_MESSAGE)
    told = json.dumps(
        {"node": site.node, "run": {**app_versions(), **site.run}, "header": instruction().header}
    )
    site(instruction())
    environment = {**os.environ, "PYTHONPATH": str(install)}
    command = [sys.executable, str(install / "run.py")]
    done = subprocess.run(
        command, input=told, capture_output=True, text=True, env=environment, check=True, timeout=120
    )
    assert json.loads(done.stdout.splitlines()[-1])[1] == []
    wait_for(lambda: len(site.living()) == 1)
    assert len(site.workers()) == 2
    path = psutil.Process(site.living()[0]).environ()["PYTHONPATH"]
    assert path.split(os.pathsep)[0] == str(install)
    assert site(instruction()).tensors == site.in_process(instruction()).tensors
    assert len(site.workers()) == 3


def test_a_worker_that_stays_another_one_is_not_used(site: AtSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Identity, "own", classmethod(lambda cls: cls("9.9", "code")))
    with pytest.raises(WorkerUnavailableError, match="with other code"):
        site(instruction())


def test_errors_come_back_with_their_text_for_the_site_alone(site: AtSite) -> None:
    (Path(site.node["data"]) / "edges.csv").write_text("src,dst\n0,9999\n")
    with pytest.raises(CarriedOutError, match="9999") as caught:
        site(instruction())
    assert caught.value.reason == "DataError; the site's own log says more"
    assert "9999" in site.place.log.read_text()


def test_a_log_in_json_quotes_no_data(site: AtSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's log, and stderr of a process that Flower starts, over an error that quotes the site's nodes."""
    monkeypatch.setenv("FEDTAG_LOG", "json")
    site(instruction())
    (Path(site.node["data"]) / "edges.csv").write_text("src,dst\n0,quokka marmalade\n")
    told = {"node": site.node, "run": {**app_versions(), **site.run}, "header": instruction("another").header}
    done = subprocess.run(
        [sys.executable, "-c", ONE_MESSAGE],
        cwd=REPOSITORY,
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ask(site.workspace, "stop", 5.0)
    wait_for(lambda: not site.place.socket.exists())
    wait_for(lambda: '"worker ends"' in site.place.log.read_text())
    log = site.place.log.read_text()
    assert "marmalade" not in log + done.stderr
    lines = [json.loads(line) for line in log.splitlines()]
    assert [(line["event"], line.get("error")) for line in lines] == [
        ("worker listens", None),
        ("instruction carried out", None),
        ("instruction failed", "DataError"),
        ("worker ends", None),
    ]
    assert (lines[1]["round"], lines[1]["phase"]) == (1, "train")
    assert lines[2]["meaning"] == "A data folder breaks the contract."
    assert any("client/data/" in frame for frame in lines[2]["frames"])
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (line["level"], line["error"]) == ("CRITICAL", "CarriedOutError")


def test_without_a_worker_the_message_is_carried_out_here(
    site: AtSite, caplog: pytest.LogCaptureFixture
) -> None:
    expected = site.in_process(instruction()).tensors

    def answer(record: Serialised, node: dict[str, Any]) -> Serialised:
        run = {**app_versions(), **site.run}
        context = Context(run_id=1, node_id=1, node_config=node, state=RecordDict(), run_config=run)
        return opened(at_the_site(sealed(record), context))

    assert answer(instruction(), {**site.node, "worker": "off"}).tensors == expected
    assert caplog.messages == []
    (site.workspace / "worker").write_text("in the way")
    assert answer(instruction(), site.node).tensors == expected
    # The work of a worker that was there before is not here.
    asked = Collect("run", 1, 1, "train", "0" * 64)
    assert sign_of(answer(serialised_sign(asked), site.node)) == lost(asked)
    assert "carried out without a worker" in caplog.text
    assert site.workers() == []
    (site.workspace / "worker").unlink()


def test_an_idle_worker_ends_and_a_new_one_starts(site: AtSite) -> None:
    run = dict(site.run)
    first = hand_over(instruction(), WorkerSettings(idle=0.5, patience=600.0), site.node, run)
    wait_for(lambda: not site.living(), 20)
    assert not site.place.socket.exists()
    assert (
        hand_over(instruction(), WorkerSettings(idle=60.0, patience=600.0), site.node, run).tensors
        == first.tensors
    )
    assert len(site.workers()) == 2


def test_sigterm_leaves_no_socket(site: AtSite) -> None:
    site(instruction())
    os.kill(site.workers()[0], signal.SIGTERM)
    wait_for(lambda: not site.living())
    assert not site.place.socket.exists()
