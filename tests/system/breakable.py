"""A federation on loopback whose programs a test starts, kills and starts again one by one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import tomli_w

from fedtag.common.config import RunConfig
from fedtag.common.errors import DeploymentError
from fedtag.deploy.federation.bundle import write_app
from fedtag.deploy.federation.control import Control, RunOutcome, flower_environment
from fedtag.deploy.federation.local import SERVE
from fedtag.deploy.federation.ports import LOOPBACK, answers, free_ports
from fedtag.deploy.federation.processes import Program, ProgramGroup, wait_until_ready
from fedtag.deploy.federation.transport import in_clear, secured
from fedtag.server.tracking.disclosures import Disclosure
from fedtag.server.tracking.rows import ClientRow, RoundRow
from fedtag.server.tracking.run_directory import RunDirectory

START_SECONDS = 90.0
START_SECONDS_A_SITE = 5.0
PATIENCE_SECONDS = 600.0
SMALL: Mapping[str, bool | int | float | str] = {
    "method": "fedavg",
    "clients": 3,
    "model.hidden": 4,
    "train.epochs": 1,
    "device": "cpu",
}


@dataclass
class Running:
    """A run that goes on in a thread of its own."""

    out: Path
    lines: list[str] = field(default_factory=list)
    ended: RunOutcome | None = None
    error: DeploymentError | None = None
    thread: threading.Thread | None = None

    @property
    def text(self) -> str:
        """The ServerApp's log."""
        return "\n".join(self.lines)

    @property
    def rounds(self) -> list[RoundRow]:
        return RunDirectory.open(self.out).read_rounds() if (self.out / "metrics.jsonl").exists() else []

    @property
    def clients(self) -> list[ClientRow]:
        return RunDirectory.open(self.out).read_clients()

    @property
    def disclosures(self) -> list[Disclosure]:
        return RunDirectory.open(self.out).read_disclosures()

    @property
    def checkpoints(self) -> list[int]:
        """The rounds whose checkpoints are there; 0 for steps before the first one."""
        return sorted(int(path.stem.split("-")[1]) for path in (self.out / "checkpoint").glob("round-*"))

    def failures(self, site: str) -> list[str]:
        """Why a site was left out, one reason a round."""
        return [row.failed for row in self.clients if row.client == site and row.failed]

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s:\n{self.text}"
            assert self.thread is None or self.thread.is_alive() or condition(), f"{what}:\n{self.text}"
            time.sleep(0.1)

    def wait_for_checkpoint(self, round_number: int) -> None:
        """Until a round is complete, and the exchange of the next one begins."""
        self.wait_until(lambda: max(self.checkpoints, default=0) >= round_number, f"round {round_number}")

    def wait_for_line(self, text: str) -> None:
        self.wait_until(lambda: text in self.text, repr(text))

    def finish(self, seconds: float = PATIENCE_SECONDS) -> Self:
        """Wait for the end of a run that succeeds."""
        assert self.thread is not None
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"the run did not end within {seconds:g} s:\n{self.text}"
        assert self.error is None, f"{self.error}\n{self.text}"
        assert self.ended is not None
        assert self.ended.succeeded, f"{self.ended}\n{self.text}"
        return self


class Breakable:
    """One SuperLink with a database, and SuperNodes by the names of their sites.

    Args:
        folder: everything lies there; `app` may exist.
        sites: data folders by name.
        workspaces: folders of sites that shall not lie in `folder`.
        tls: encryption, and a key for each node.
        address: where the SuperLink listens for nodes.
        cache: of all sites, by default one in `folder`.
        poll: seconds after which programs look for work again; more than fedtag's own leave other tests more.
        present: the sites that are there from the beginning, by default all.
        plain: Flower's own executors.
        serve_site: the command that stands in for `fedtag serve` at sites.
    """

    def __init__(
        self,
        folder: Path,
        sites: Mapping[str, Path],
        workspaces: Mapping[str, Path] | None = None,
        tls: bool = False,
        present: Sequence[str] | None = None,
        address: str = LOOPBACK,
        cache: Path | None = None,
        poll: float = 0.2,
        plain: bool = False,
        serve_site: Sequence[str] | None = None,
    ) -> None:
        self.folder = folder
        self.sites = dict(sites)
        self.workspaces = {name: folder / "sites" / name for name in sites} | dict(workspaces or {})
        self.present = list(sites) if present is None else list(present)
        self.programs: dict[str, Program] = {}
        self.group = ProgramGroup(folder)
        self.http_port, self.fleet_port, self.watch = free_ports(3)
        self.poll = poll
        self.environment = flower_environment(
            {
                "OMP_NUM_THREADS": "1",
                "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": str(poll),
                "FEDTAG_HOME": str(folder),
            }
        )
        self.app = folder / "app"
        self.given = self.app.exists()
        self.cache = cache or folder / "cache"
        self.runs = 0
        self._before: dict[str, int] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self.address = address
        self.plain = ["--plain-executors"] if plain else []
        self.serve_site = tuple(serve_site or SERVE)
        count = len(self.sites)
        self.transport = secured(folder / "keys", count, (LOOPBACK, address)) if tls else in_clear(count)

    def __enter__(self) -> Self:
        if not self.given:
            write_app(self.app)
        self.group.__enter__()
        try:
            self.start_superlink()
            for key in self.transport.public_keys:
                self.control("registration").register(key)
            for name in self.present:
                self.start_node(name, wait=False)
            ready = {self.programs[name]: partial(self.online, name) for name in self.present}
            wait_until_ready(ready, START_SECONDS + START_SECONDS_A_SITE * len(ready))
        except BaseException:
            self.group.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.group.stop()

    def control(self, name: str, app: Path | None = None) -> Control:
        """Flower's command line for an app, by default fedtag's, with a home of its own."""
        home = self.folder / name
        home.mkdir(exist_ok=True)
        authority = self.transport.authority
        return Control(app or self.app, home, self.http_port, self.environment, authority=authority)

    def start_superlink(self) -> None:
        own = self.folder / "superlink"
        own.mkdir(exist_ok=True)
        command = [*SERVE, "link", "--port", str(self.http_port), "--watch", str(self.watch)]
        command += ["--fleet", f"{self.address}:{self.fleet_port}", *self.transport.link, *self.plain]
        command += ["--database", str(own / "superlink.db")]
        program = self.group.launch("superlink", command, {**self.environment, "FLWR_HOME": str(own)})
        self.programs["superlink"] = program
        ready = {program: lambda: answers(self.http_port) and self._listens()}
        wait_until_ready(ready, START_SECONDS)

    def start_node(
        self,
        name: str,
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
        inside: Sequence[str] = (),
        told: Mapping[str, str | int | float] | None = None,
    ) -> Program:
        """Start a SuperNode.

        Args:
            name: of its site.
            environment: additions to that of all.
            wait: until it is online.
            inside: the command that starts commands where it shall run.
            told: additions to its node configuration.
        """
        self._before[name] = self._admissions(name)
        home = self.folder / f"node-{name}"
        home.mkdir(exist_ok=True)
        settings = home / "node-config.toml"
        workspace = self.workspaces[name]
        node = {"name": name, "data": str(self.sites[name]), "workspace": str(workspace), "device": "cpu"}
        settings.write_text(
            tomli_w.dumps({**node, "cache": str(self.cache), **(told or {})}), encoding="utf-8"
        )
        port, watch = free_ports(2)
        command = [*inside, *self.serve_site, "site", "--superlink", f"{self.address}:{self.fleet_port}"]
        command += self.transport.sites[list(self.sites).index(name)]
        command += ["--port", str(port), "--watch", str(watch), "--config", str(settings), *self.plain]
        own = {**self.environment, "FLWR_HOME": str(home), **(environment or {})}
        program = self.group.launch(name, command, own)
        self.programs[name] = program
        if wait:
            wait_until_ready({program: partial(self.online, name)}, START_SECONDS)
        return program

    def kill(self, name: str) -> None:
        """End a program and all that it started without warning, as a power cut does."""
        self.programs[name].kill()

    def stop(self, name: str) -> None:
        """End a program in order: a SuperNode takes its leave of the SuperLink."""
        program = self.programs[name]
        program.family()
        program.terminate()
        deadline = time.monotonic() + START_SECONDS
        while program.exit_code is None and time.monotonic() < deadline:
            time.sleep(0.1)
        program.kill()

    def restore(self) -> None:
        """Start again what does not run."""
        for name in ("superlink", *self.present):
            if self.programs[name].exit_code is not None:
                self.start_superlink() if name == "superlink" else self.start_node(name)

    def log(self, name: str) -> str:
        return self.programs[name].log_tail(10_000)

    def run(self, out: str, **settings: bool | int | float | str) -> Running:
        """Submit a run; `exchange__deadline` is the setting exchange.deadline."""
        self.runs += 1
        changed = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
        running = Running(self.folder / "runs" / out)
        flat = RunConfig.from_flat({**SMALL, "exchange.poll": self.poll, **changed, "out": out}).to_flat()
        # An app has the settings of what its runs are made of, and no others.
        app = self.app if self.given else write_app(self.folder / f"app-{self.runs}", {**SMALL, **changed})
        control = self.control(f"control-{self.runs}", app)

        def follow() -> None:
            try:
                running.ended = control.run(flat, running.lines.append)
            except DeploymentError as error:
                running.error = error

        running.thread = threading.Thread(target=follow, daemon=True)
        running.thread.start()
        return running

    def online(self, name: str) -> bool:
        """Whether a node has been let in since it was started last."""
        return self._admissions(name) > self._before[name]

    def _listens(self) -> bool:
        try:
            socket.create_connection((self.address, self.fleet_port), 0.2).close()
        except OSError:
            return False
        return True

    def _admissions(self, name: str) -> int:
        return self.log(name).count("SuperNode ID:") if name in self.programs else 0
