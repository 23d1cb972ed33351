"""A whole Flower federation on this machine, for as long as a context lasts."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import tomli_w

from fedtag.common.errors import DeploymentError
from fedtag.deploy.federation.control import Control, RunOutcome, flower_environment
from fedtag.deploy.federation.ports import LOOPBACK, answers, free_ports
from fedtag.deploy.federation.processes import Program, ProgramGroup, wait_until_ready
from fedtag.deploy.federation.transport import in_clear, secured

_NODE_ID = re.compile(r"SuperNode ID: (\d+)")
MOST_LOG_LINES = 1000
SERVE = (sys.executable, "-P", "-m", "fedtag.deploy.cli", "serve")


class LocalFederation:
    """Real processes: one SuperLink and one SuperNode a site, which speak gRPC over loopback.

    Args:
        app: the folder of the Flower app, with its pyproject.toml.
        home: a folder of this federation's own: installed bundles, settings, logs.
        nodes: one mapping a SuperNode; it becomes the client's `context.node_config`.
        environment: additions to the environment of all processes.
        start_seconds: how long the processes may take until they answer.
        tls: encrypt, and let in nodes with a registered key only; all keys are made for this federation.
        plain: let Flower's own executors carry out runs and messages, which import what the app holds.
    """

    def __init__(
        self,
        app: Path,
        home: Path,
        nodes: Sequence[Mapping[str, str]],
        environment: Mapping[str, str] | None = None,
        start_seconds: float = 60.0,
        tls: bool = False,
        plain: bool = False,
    ) -> None:
        self._app = app
        self._home = home.resolve()
        self._node_configs = [dict(node) for node in nodes]
        self._environment = flower_environment(environment or {})
        self._start_seconds = start_seconds
        self._tls = tls
        self._plain = ["--plain-executors"] if plain else []
        self._introduced: set[Program] = set()
        self._node_ids: dict[str, int] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._group = stack.enter_context(ProgramGroup(self._home))
            http_port, self._fleet_port, watch = free_ports(3)
            count = len(self._node_configs)
            self._transport = secured(self._home / "keys", count) if self._tls else in_clear(count)
            command = [*SERVE, "link", "--port", str(http_port), "--watch", str(watch), *self._plain]
            command += ["--fleet", f"{LOOPBACK}:{self._fleet_port}", *self._transport.link]
            superlink = _launch_superlink(self._group, self._environment, self._home, command)
            self._control = Control(
                self._app, self._home, http_port, self._environment, authority=self._transport.authority
            )
            ready = {superlink: lambda: answers(http_port) and answers(self._fleet_port)}
            if self._transport.public_keys:
                wait_until_ready(ready, self._start_seconds)
                for key in self._transport.public_keys:
                    self._control.register(key)
            # A node retries until the SuperLink answers, so both may start at once where no key is asked for.
            launched = [self._launch_node(index) for index in range(count)]
            wait_until_ready(ready | dict(launched), self._start_seconds)
            self._nodes = [program for program, _ in launched]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(
        self, run_config: Mapping[str, bool | int | float | str], on_line: Callable[[str], None]
    ) -> RunOutcome:
        """One run on all nodes; see `Control.run`."""
        return self._control.run(run_config, on_line)

    def ended(self) -> dict[int, int]:
        """Exit codes of the SuperNodes that have ended, by their places."""
        codes = {index: program.exit_code for index, program in enumerate(self._nodes)}
        return {index: code for index, code in codes.items() if code is not None}

    def node_ids(self) -> dict[str, int]:
        """The places of the SuperNodes by the numbers that Flower has given them; a restarted one may have two."""
        for index, program in enumerate(self._nodes):
            if program not in self._introduced and (
                found := _NODE_ID.findall(program.log_tail(MOST_LOG_LINES))
            ):
                self._introduced.add(program)
                self._node_ids[found[-1]] = index
        return dict(self._node_ids)

    def kill_node(self, index: int) -> None:
        """End a SuperNode and all that it started without warning, as a power cut does."""
        self._nodes[index].kill()

    def restart_node(self, index: int) -> None:
        """Start a killed SuperNode again; it comes back under a new node id, or with a key under the same.

        Raises:
            DeploymentError: it still runs, or it does not start; one with a key is refused for about a minute
                after it was killed, while the SuperLink believes that it is there.
        """
        if self._nodes[index].exit_code is None:
            raise DeploymentError(f"node {index} still runs: kill it before it is started again.")
        program, ready = self._launch_node(index)
        wait_until_ready({program: ready}, self._start_seconds)
        self._nodes[index] = program

    def _launch_node(self, index: int) -> tuple[Program, Callable[[], bool]]:
        # A home a node: two nodes that install the same bundle into one folder disturb each other.
        home = self._home / f"node-{index}"
        home.mkdir(parents=True, exist_ok=True)
        settings = home / "node-config.toml"
        settings.write_text(tomli_w.dumps(self._node_configs[index]), encoding="utf-8")
        port, watch = free_ports(2)
        command = [*SERVE, "site", "--superlink", f"{LOOPBACK}:{self._fleet_port}", "--config", str(settings)]
        command += ["--port", str(port), "--watch", str(watch), *self._transport.sites[index], *self._plain]
        program = self._group.launch(f"node-{index}", command, {**self._environment, "FLWR_HOME": str(home)})
        return program, lambda: answers(port)


class SimulatedFederation:
    """Flower's simulation: one SuperLink whose clients are Ray actors that live as long as a run.

    A client's `context.node_config` holds `partition-id` and `num-partitions`.

    Flower can start a SuperLink for simulations by itself, but leaves it running, detached and on a fixed
    port; this one belongs to the context.

    Args:
        app: the folder of the Flower app, with its pyproject.toml.
        home: a folder of this federation's own: installed bundle, settings, logs.
        num_nodes: how many clients.
        environment: additions to the environment of all processes.
        client_cpus: CPU cores that Ray reserves for a client while it works; >= 1.
        client_gpus: the share of a GPU that Ray reserves for it; >= 0.
        start_seconds: how long the SuperLink may take until it answers.
    """

    def __init__(
        self,
        app: Path,
        home: Path,
        num_nodes: int,
        environment: Mapping[str, str] | None = None,
        client_cpus: int = 1,
        client_gpus: float = 0.0,
        start_seconds: float = 60.0,
    ) -> None:
        self._app = app
        self._home = home.resolve()
        resources = f"client-resources-num-cpus={client_cpus} client-resources-num-gpus={float(client_gpus)}"
        self._options = ("--federation-config", f"num-supernodes={num_nodes} {resources}")
        self._environment = flower_environment(environment or {})
        self._start_seconds = start_seconds
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            # Ray's sockets lie below this folder and must have short names.
            scratch = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="fedtag-ray-", ignore_cleanup_errors=True)
            )
            environment = {**self._environment, "RAY_TMPDIR": scratch}
            group = stack.enter_context(ProgramGroup(self._home))
            (port,) = free_ports(1)
            command = [
                "flower-superlink",
                "--host",
                LOOPBACK,
                "--port",
                str(port),
                "--insecure",
                "--simulation",
            ]
            superlink = _launch_superlink(group, environment, self._home, command)
            wait_until_ready({superlink: lambda: answers(port)}, self._start_seconds)
            self._control = Control(self._app, self._home, port, environment, self._options)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(
        self, run_config: Mapping[str, bool | int | float | str], on_line: Callable[[str], None]
    ) -> RunOutcome:
        """One run on all simulated nodes; see `Control.run`."""
        return self._control.run(run_config, on_line)

    def ended(self) -> dict[int, int]:
        """Nothing: simulated nodes are no programs."""
        return {}

    def node_ids(self) -> dict[str, int]:
        """Nothing: which simulated node stands for which site is known to Flower alone."""
        return {}


def _launch_superlink(
    group: ProgramGroup, environment: Mapping[str, str], home: Path, command: Sequence[str]
) -> Program:
    own = home / "superlink"
    own.mkdir(parents=True, exist_ok=True)
    return group.launch("superlink", command, {**environment, "FLWR_HOME": str(own)})
